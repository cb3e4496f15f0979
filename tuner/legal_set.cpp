// Which configurations of a space may be proposed. Start at legal_configurations().
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/counter_rng.h"
#include "tuner/search_space.h"
#include "tuner/space_rules.h"

namespace moetune {
namespace {
using Objection = std::function<std::optional<std::string>(const Configuration&)>;

// An objection that names a number of bytes is a new one for every configuration; a
// report needs no million of them.
constexpr std::size_t max_distinct_objections = 256;
const char* const other_objections = "other reasons";

// A configuration whose parameters change one at a time: enumeration would
// otherwise spend its time building maps.
class MovingConfiguration {
 public:
  MovingConfiguration(const SearchSpace& space, const Levels& levels)
      : space_(space), levels_(levels), configuration_(space.configuration_of(levels)) {
    for (const Parameter& parameter : space.parameters)
      values_.push_back(&configuration_.values.at(parameter.name));
  }
  void set(std::size_t parameter, std::uint16_t level) {
    if (levels_[parameter] == level) return;
    levels_[parameter] = level;
    *values_[parameter] = space_.parameters[parameter].values[level];
  }
  const Levels& levels() const { return levels_; }
  const Configuration& configuration() const { return configuration_; }

 private:
  const SearchSpace& space_;
  Levels levels_;
  Configuration configuration_;
  std::vector<std::string*> values_;  // by parameter; nodes of a map do not move
};

class Collector {
 public:
  Collector(const SearchSpace& space, const Objection& objection) : rules_(space), objection_(objection) {}

  const SpaceRules& rules() const { return rules_; }

  void examine(std::uint64_t rank, const Levels& levels, const Configuration& configuration) {
    if (const Constraint* violated = rules_.violated(levels)) return remove(violated->reason);
    if (objection_) {
      if (auto reason = objection_(configuration)) return remove(*reason);
    }
    legal_.ranks.push_back(rank);
  }
  void merge() { ++legal_.merged; }

  LegalSet finish(const SearchSpace& space, bool sampled) {
    legal_.declared = space.declared_size();
    legal_.sampled = sampled;
    legal_.examined = legal_.ranks.size() + legal_.merged;
    for (const auto& [reason, count] : removed_) {
      legal_.removed.emplace_back(reason, count);
      legal_.examined += count;
    }
    std::sort(legal_.removed.begin(), legal_.removed.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    std::sort(legal_.ranks.begin(), legal_.ranks.end());
    if (legal_.ranks.empty()) throw NoFeasibleConfiguration(nothing_left(space));
    return std::move(legal_);
  }

 private:
  void remove(const std::string& reason) {
    const auto known = removed_.find(reason);
    if (known != removed_.end()) {
      ++known->second;
    } else {
      ++removed_[removed_.size() + 1 < max_distinct_objections ? reason : other_objections];
    }
  }

  std::string nothing_left(const SearchSpace& space) const {
    std::string message =
        fmt::format("space '{}': none of its {} configurations can run here", space.name, legal_.declared);
    constexpr std::size_t shown_objections = 3;
    for (std::size_t i = 0; i < std::min(shown_objections, legal_.removed.size()); ++i)
      message += fmt::format("{} {} ({} configurations)", i == 0 ? ":" : ";", legal_.removed[i].first,
                             legal_.removed[i].second);
    if (legal_.removed.size() > shown_objections)
      message += fmt::format("; and {} other reasons", legal_.removed.size() - shown_objections);
    return message;
  }

  SpaceRules rules_;
  const Objection& objection_;
  LegalSet legal_;
  std::unordered_map<std::string, std::uint64_t> removed_;
};

LegalSet enumerate(const SearchSpace& space, const Objection& objection) {
  Collector collector(space, objection);
  const std::uint64_t size = space.declared_size();
  MovingConfiguration moving(space, Levels(space.parameters.size(), 0));
  Levels canonical;
  for (std::uint64_t rank = 0; rank < size; ++rank) {
    canonical = moving.levels();
    if (collector.rules().canonicalize(canonical)) {
      collector.merge();  // the canonical one comes under its own rank
    } else {
      collector.examine(rank, moving.levels(), moving.configuration());
    }
    for (std::size_t p = space.parameters.size();
         p-- > 0;) {  // the last parameter moves fastest, like the rank
      const auto next = static_cast<std::uint16_t>(moving.levels()[p] + 1);
      const bool wraps = next == space.parameters[p].values.size();
      moving.set(p, wraps ? std::uint16_t{0} : next);
      if (!wraps) break;
    }
  }
  return collector.finish(space, false);
}

LegalSet sample(const SearchSpace& space, const Objection& objection) {
  Collector collector(space, objection);
  // Not the study's seed: the legal set is part of the space, and a resume must find the same one.
  const CounterRng rng(0, RngStage::space_sample);
  const std::uint64_t size = space.declared_size();
  MovingConfiguration moving(space, Levels(space.parameters.size(), 0));
  std::unordered_set<std::uint64_t> seen;
  for (std::uint64_t draw = 0; draw < sampled_draws; ++draw) {
    Levels levels = space.levels_at(rng.below(size, draw));
    collector.rules().canonicalize(levels);
    const std::uint64_t rank = space.rank_of(levels);
    if (!seen.insert(rank).second) {
      collector.merge();
      continue;
    }
    for (std::size_t p = 0; p < levels.size(); ++p) moving.set(p, levels[p]);
    collector.examine(rank, moving.levels(), moving.configuration());
  }
  return collector.finish(space, true);
}
}  // namespace

LegalSet legal_configurations(const SearchSpace& space, const Objection& objection) {
  return space.declared_size() > largest_enumerated_space ? sample(space, objection)
                                                          : enumerate(space, objection);
}

std::int64_t count_with(const LegalSet& legal, const SearchSpace& space, const Configuration& one) {
  const std::optional<std::uint64_t> rank = space.find(one);
  const bool is_in = rank && std::ranges::binary_search(legal.ranks, *rank);
  return std::ssize(legal.ranks) + (is_in ? 0 : 1);
}

}  // namespace moetune
