#include "tuner/searcher.h"

#include "engine/facts/error.h"
#include "tuner/searchers/exhaustive.h"
#include "tuner/searchers/nsga2.h"
#include "tuner/searchers/random.h"
#include "tuner/searchers/sobol.h"

namespace moetune {

std::vector<std::string> searcher_names() { return {"random", "sobol", "exhaustive", "nsga2"}; }

std::string_view searcher_words(std::string_view name) {
  if (name == "random") return "in random order, none twice";
  if (name == "sobol") return "spread evenly over the space, for a first look at a large one";
  if (name == "exhaustive") return "every configuration, in the order of the space; for small ones";
  if (name == "nsga2") return "breeds the best found so far for all objectives at once; the default";
  return "";
}

std::unique_ptr<Searcher> make_searcher(std::string_view name, const SearcherInput& input) {
  if (name == "random") return std::make_unique<RandomSearcher>(input);
  if (name == "sobol") return std::make_unique<SobolSearcher>(input);
  if (name == "exhaustive") return std::make_unique<ExhaustiveSearcher>(input);
  if (name == "nsga2") return std::make_unique<Nsga2Searcher>(input);
  std::string accepted;
  for (const std::string& known : searcher_names())
    accepted.append(accepted.empty() ? "" : ", ").append(known);
  throw InputError("--searcher", "no searcher named '" + std::string(name) + "'", accepted);
}

}  // namespace moetune
