#include "tuner/choose.h"

#include <algorithm>
#include <utility>

#include "engine/facts/knobs.h"
#include "tuner/choice_tolerance.h"
#include "tuner/contest.h"
#include "tuner/metric_facts.h"
#include "tuner/no_recommendation.h"
#include "tuner/verdicts.h"

namespace moetune {
namespace {

// What is more than this many times worse than the best in the search has no chance in a final round: moods
// of a machine under load were seen to differ by 1.8.
constexpr double hopeless = 2.0;

constexpr auto not_measured_again =
    "NOT MEASURED AGAIN: there is no final round of the finalists. The times below are the search's, each "
    "measured once and at "
    "another time than the default's: what looks like a gain may be the machine's mood. 'moetune tune "
    "--resume' makes up for it.";

// The knobs that cost new weights to change, as one text.
std::string weights_key(const Configuration& configuration) {
  std::string key;
  for (const Knob& knob : knobs())
    if (const auto found = configuration.values.find(std::string(knob.name));
        knob.switch_cost >= SwitchCost::weights && found != configuration.values.end())
      key += found->first + "=" + found->second + " ";
  return key;
}

// Those with the same weights stand together, in the order of the first of each: in turns they then share
// what is loaded.
std::vector<std::int64_t> by_weights(const std::vector<std::int64_t>& numbers,
                                     std::span<const Trial> trials) {
  std::vector<std::string> keys;
  std::vector<std::vector<std::int64_t>> groups;
  for (const std::int64_t number : numbers) {
    const std::string key = weights_key(trials[static_cast<std::size_t>(number)].configuration);
    const auto place = static_cast<std::size_t>(std::ranges::find(keys, key) - keys.begin());
    if (place == keys.size()) {
      keys.push_back(key);
      groups.emplace_back();
    }
    groups[place].push_back(number);
  }
  std::vector<std::int64_t> together;
  for (const auto& group : groups) together.insert(together.end(), group.begin(), group.end());
  return together;
}

Recommendation decide(const Contest& contest) {
  if (const auto none = no_recommendation(contest)) return *none;
  if (!contest.default_competes()) return without_default(contest);
  Contenders better;
  for (const Contender* contender : contest.acceptable)
    if (!contender->is_default && clears_default(*contender, *contest.default_one, contest.objective))
      better.push_back(contender);
  if (better.empty()) return default_stays(contest);
  if (is_as_good(*contest.default_one, best_of(better))) return too_little(contest, best_of(better));
  return replaced(contest, simplest_of_the_best(better));
}

}  // namespace

std::vector<std::string> accuracy_parameters() {
  return {"top_k", "top_k_rule", "reroute_margin", "expert_quant", "dense_quant", "kv_type"};
}

bool keeps_accuracy(const Configuration& configuration, const Configuration& default_configuration) {
  const std::vector<std::string> parameters = accuracy_parameters();
  return std::all_of(parameters.begin(), parameters.end(), [&](const std::string& name) {
    const auto own = configuration.values.find(name);
    const auto theirs = default_configuration.values.find(name);
    return own == configuration.values.end() || theirs == default_configuration.values.end() ||
           own->second == theirs->second;
  });
}

std::vector<std::int64_t> finalists(const ChoiceInput& input) {
  const Contest contest(input, nullptr);
  if (contest.acceptable.empty() || !is_timed(contest.objective.metric) || misses_required_slo(contest))
    return {};
  std::vector<std::int64_t> numbers;
  const auto add = [&](std::int64_t number) {
    if (numbers.size() < most_finalists && std::ranges::find(numbers, number) == numbers.end())
      numbers.push_back(number);
  };
  if (contest.default_competes()) add(contest.default_one->trial->number);
  if (const auto would_be = decide(contest).trial) add(*would_be);
  Contenders others = contest.acceptable;
  std::ranges::stable_sort(others, {}, [](const Contender* contender) { return contender->value; });
  const double best = others.front()->value;
  const double worst = best > 0.0 ? hopeless * best : best / hopeless;
  for (const Contender* contender : others)
    if (contender->value <= worst) add(contender->trial->number);
  return by_weights(numbers, input.trials);
}

Recommendation choose(const ChoiceInput& input) {
  const std::vector<std::int64_t> wanted = finalists(input);
  std::optional<FinalRound> round =
      final_round(wanted, std::ssize(input.trials), input.measured_again, input.objectives.front());
  Recommendation recommendation = decide(Contest(input, round ? &*round : nullptr));
  // One alone was compared with nothing, so no gain of its own can be the mood's.
  if (wanted.size() > 1 && !round) recommendation.caution = not_measured_again;
  if (round) recommendation.tolerance = choice_tolerance(recommendation, *round, input);
  recommendation.final_round = std::move(round);
  return recommendation;
}

}  // namespace moetune
