// NSGA-II (Deb, Pratap, Agarwal, Meyarivan 2002) on the levels of the table: parents are the best of
// everything told so far, by front and then by loneliness; failed trials come after all others. Only
// configurations that nobody has tried are proposed, so nothing is measured twice. Start at breed().
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "tuner/counter_rng.h"
#include "tuner/searchers/search_table.h"
#include "tuner/searchers/sobol.h"

namespace moetune {

class Nsga2Searcher : public Searcher {
 public:
  static constexpr std::size_t population = 16;

  explicit Nsga2Searcher(const SearcherInput& input);
  std::optional<Configuration> ask() override;
  void tell(const Trial& trial) override;

 private:
  struct Individual {
    Levels levels;
    int rank = 0;           // of its front; failed trials share one after the last
    double crowding = 0.0;  // larger: lonelier
  };
  std::vector<Individual> parents() const;
  void first_generation();
  void breed();
  void propose(std::size_t position);

  SearchTable table_;
  SobolSearcher design_;  // the first generation
  std::vector<Objective> objectives_;
  std::uint64_t seed_;
  std::uint32_t generation_ = 0;
  std::deque<std::size_t> proposals_;  // positions, taken, still to be asked
  // Told, by position; empty values: failed. Ordered by position, so that
  // nothing hangs on the order of tells.
  std::map<std::size_t, std::vector<double>> told_;
};

}  // namespace moetune
