// Every legal configuration, by rank: the last parameter of the space changes fastest, so a space file that
// names what is expensive to change first is measured with few changes of it.
#pragma once

#include "tuner/searchers/search_table.h"

namespace moetune {

class ExhaustiveSearcher : public Searcher {
 public:
  explicit ExhaustiveSearcher(const SearcherInput& input) : table_(input) {}
  std::optional<Configuration> ask() override;
  void tell(const Trial& trial) override;

 private:
  SearchTable table_;
  std::size_t next_ = 0;
};

}  // namespace moetune
