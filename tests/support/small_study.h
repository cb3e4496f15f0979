// A space of a few hundred configurations with an inactive parameter, a constraint and a made-up measurement:
// fewer experts and fewer bits are faster and less accurate; a cache that is too small runs out of memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tuner/searcher.h"

namespace moetune {

struct SmallStudy {
  SmallStudy();

  SearchSpace space;
  LegalSet legal;
  std::vector<Objective> objectives;  // tpot_ms, kl_mean
  Configuration default_configuration;

  std::unique_ptr<Searcher> searcher(const std::string& name, std::uint64_t seed) const {
    return make_searcher(name, {space, legal, objectives, seed});
  }
  // A pure function of the configuration.
  Trial measured(const Configuration& configuration, std::int64_t number) const;
  // The default configuration first, then what the searcher asks, `count` trials in
  // all or until it has nothing left.
  std::vector<Trial> run(Searcher& searcher, std::size_t count) const;
};

}  // namespace moetune
