#include "tests/support/small_study.h"

#include <cmath>

namespace moetune {

SmallStudy::SmallStudy() : objectives(objectives_named("tpot_ms,kl_mean")) {
  space.name = "small";
  const auto ordinal = Parameter::Kind::ordinal;
  const auto categorical = Parameter::Kind::categorical;
  space.parameters = {{"expert_quant", ordinal, {"checkpoint", "int8", "int4"}, {}, ""},
                      {"router", categorical, {"gpu", "cpu"}, {}, ""},
                      {"expert_cache", ordinal, {"0.25", "0.5", "0.75", "1"}, {}, ""},
                      {"cache_policy",
                       categorical,
                       {"lru", "lfu", "pinned"},
                       {{"expert_cache", {"0.25", "0.5", "0.75"}}},
                       "lru"},
                      {"top_k", ordinal, {"1", "2", "3", "4", "5", "6", "7", "8"}, {}, ""}};
  space.constraints = {{{{"expert_quant", {"int4"}}, {"top_k", {"1"}}}, "too coarse"}};
  legal = legal_configurations(space, {});
  default_configuration.values = {{"expert_quant", "checkpoint"},
                                  {"router", "gpu"},
                                  {"expert_cache", "1"},
                                  {"cache_policy", "lru"},
                                  {"top_k", "8"}};
}

Trial SmallStudy::measured(const Configuration& configuration, std::int64_t number) const {
  Trial trial;
  trial.number = number;
  trial.configuration = configuration;
  const auto value = [&](const char* name) {
    const auto found = configuration.values.find(name);
    return found == configuration.values.end() ? std::string() : found->second;
  };
  const double top_k = value("top_k").empty() ? 8 : std::stod(value("top_k"));
  const double cache = value("expert_cache").empty() ? 1 : std::stod(value("expert_cache"));
  const double bytes = value("expert_quant") == "int4" ? 0.5 : value("expert_quant") == "int8" ? 1.0 : 2.0;
  if (bytes * cache < 0.2) {
    trial.outcome = Outcome::out_of_memory;
    trial.reason = "made up";
    return trial;
  }
  const double hits = cache + (1.0 - cache) * (value("cache_policy") == "lfu" ? 0.6 : 0.4);
  trial.metrics["tpot_ms"].value =
      1.0 + 0.2 * top_k * bytes * (1.0 + 4.0 * (1.0 - hits)) + (value("router") == "cpu" ? 0.8 : 0.0);
  trial.metrics["kl_mean"].value = 0.1 * std::pow((8.0 - top_k) / 8.0, 2) + (bytes < 1.0   ? 0.01
                                                                             : bytes < 2.0 ? 0.001
                                                                                           : 0.0);
  return trial;
}

std::vector<Trial> SmallStudy::run(Searcher& searcher, std::size_t count) const {
  std::vector<Trial> trials{measured(default_configuration, 0)};
  searcher.tell(trials[0]);
  while (trials.size() < count) {
    const auto configuration = searcher.ask();
    if (!configuration) break;
    trials.push_back(measured(*configuration, static_cast<std::int64_t>(trials.size())));
    searcher.tell(trials.back());
  }
  return trials;
}

}  // namespace moetune
