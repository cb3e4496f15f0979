// A scrambled Sobol sequence laid over the table: parameter i takes the level that coordinate i falls
// into. Points that fall on something illegal or known are passed over; when many in a row do, the
// closest open configuration is taken.
#pragma once

#include <vector>

#include "tuner/searchers/search_table.h"
#include "tuner/searchers/sobol_sequence.h"

namespace moetune {

class SobolSearcher : public Searcher {
 public:
  // Throws InputError when more than 32 parameters have several legal values.
  explicit SobolSearcher(const SearcherInput& input);
  std::optional<Configuration> ask() override;
  void tell(const Trial& trial) override;

 private:
  Levels next_levels();

  SearchTable table_;
  std::vector<std::vector<std::uint16_t>> levels_;  // by parameter: those that occur
  SobolSequence sequence_;
  std::uint64_t seed_;
  std::uint32_t next_ = 0;
};

}  // namespace moetune
