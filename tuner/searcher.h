// A searcher proposes configurations and is told how they went. Deterministic: the same space, legal set,
// objectives, seed and tells give the same asks, so a run resumes by asking again and telling what the log
// holds. Start at make_searcher(); the searchers are in searchers/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/configuration.h"
#include "tuner/objective.h"
#include "tuner/search_space.h"
#include "tuner/trial.h"

namespace moetune {

class Searcher {
 public:
  virtual ~Searcher() = default;
  // Never one that was asked or told before; empty: nothing left to try.
  virtual std::optional<Configuration> ask() = 0;
  virtual void tell(const Trial& trial) = 0;  // also of trials it did not ask for (the default configuration)
};

// space and legal must outlive the searcher.
struct SearcherInput {
  const SearchSpace& space;
  const LegalSet& legal;
  std::span<const Objective> objectives;
  std::uint64_t seed = 1;
};

// random, sobol, exhaustive, nsga2. Throws InputError with the accepted names.
std::unique_ptr<Searcher> make_searcher(std::string_view name, const SearcherInput& input);
std::vector<std::string> searcher_names();
std::string_view searcher_words(std::string_view name);  // how it goes about it; empty: there is none such

}  // namespace moetune
