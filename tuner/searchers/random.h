// Random without replacement: legal configurations in an order drawn once. The order of two configurations
// depends on the seed and their ranks alone, so it stays when hardware or constraints take others away.
#pragma once

#include <vector>

#include "tuner/searchers/search_table.h"

namespace moetune {

class RandomSearcher : public Searcher {
 public:
  explicit RandomSearcher(const SearcherInput& input);
  std::optional<Configuration> ask() override;
  void tell(const Trial& trial) override;

 private:
  SearchTable table_;
  std::vector<std::size_t> order_;  // positions
  std::size_t next_ = 0;
};

}  // namespace moetune
