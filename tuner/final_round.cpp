#include "tuner/final_round.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/replicate.h"

namespace moetune {
namespace {

bool is_of_round(const Trial& trial, std::span<const std::int64_t> finalists, std::int64_t after) {
  return trial.turn && trial.turn->after == after && std::ranges::equal(trial.turn->finalists, finalists);
}

// Whose turn it is: two passes are a block, forwards and backwards (A B C, C B A), so that what grows evenly
// hits all of them alike; the start moves on by one from block to block, so that no finalist is always the
// first of a fresh process.
std::int64_t at_turn(std::span<const std::int64_t> finalists, std::int64_t pass, std::size_t place) {
  const std::size_t count = finalists.size();
  const auto start = static_cast<std::size_t>(pass / 2) % count;
  return finalists[(start + (pass % 2 == 0 ? place : count - 1 - place)) % count];
}

// The ratios of the passes as one: their median, between order statistics, which a disturbed pass on either
// side does not move. challengers: each of so many has its own chance to look better by luck; the interval is
// wide enough that all of theirs hold at once with 95 % (Bonferroni).
Measurement over_passes(const std::vector<Measurement>& ratios, std::size_t challengers) {
  Measurement all = over_processes(ratios);
  std::vector<double> values;
  for (const Measurement& ratio : ratios) values.push_back(ratio.value);
  const double confidence = 1.0 - (1.0 - usual_confidence) / static_cast<double>(challengers);
  if (const auto interval = median_interval(values, confidence)) {
    all.low = interval->low;
    all.high = interval->high;
  } else if (all.low) {  // so few passes have only the range of all that each of them says of itself
    for (const Measurement& ratio : ratios) {
      all.low = std::min(*all.low, ratio.low.value_or(ratio.value));
      all.high = std::max(*all.high, ratio.high.value_or(ratio.value));
    }
  }
  return all;
}

Measurement ratio_of(const Measurement& value, const Measurement& reference) {
  Measurement ratio;
  ratio.value = value.value / reference.value;
  ratio.n = 1;
  if (value.low && value.high && reference.low && reference.high && *reference.low > 0.0) {
    ratio.low = *value.low / *reference.high;
    ratio.high = *value.high / *reference.low;
  }
  return ratio;
}

// One finalist's turns, by pass.
std::vector<const Trial*> turns_of(std::int64_t finalist, std::span<const Trial* const> round) {
  std::vector<const Trial*> turns;
  for (const Trial* trial : round)
    if (trial->number == finalist) turns.push_back(trial);
  return turns;
}

const Trial* failure_among(const std::vector<const Trial*>& turns, const std::string& metric) {
  for (const Trial* trial : turns)
    if (trial->outcome != Outcome::ok || !trial->metrics.contains(metric)) return trial;
  return nullptr;
}

double load_seconds_of(const Trial& trial) {
  const auto found = trial.metrics.find("load_seconds");
  return found == trial.metrics.end() ? 0.0 : found->second.value;
}

}  // namespace

std::optional<NextTurn> next_turn(std::span<const std::int64_t> finalists, std::int64_t after,
                                  std::span<const Trial> measured_again, const FinalLimits& limits) {
  std::vector<const Trial*> round;
  for (const Trial& trial : measured_again)
    if (is_of_round(trial, finalists, after)) round.push_back(&trial);
  auto logged = round.begin();
  std::set<std::int64_t> failed;
  double spent = 0.0;
  double loading = 0.0;
  for (std::int64_t pass = 0; pass < limits.passes; ++pass) {
    if (failed.size() == finalists.size())
      return std::nullopt;  // one that is left alone still gives rounds to compare nights by
    const double growth = pass == 0 ? 0.0 : static_cast<double>(pass + 1) / static_cast<double>(pass);
    const auto is_beyond = [&](double so_far, const std::optional<double>& limit) {
      return limit && so_far * growth > *limit;
    };
    if (pass >= limits.fewest &&
        (is_beyond(spent, limits.seconds) || is_beyond(loading, limits.load_seconds)))
      return std::nullopt;
    for (std::size_t place = 0; place < finalists.size(); ++place) {
      const std::int64_t number = at_turn(finalists, pass, place);
      if (failed.contains(number)) continue;
      if (logged == round.end())
        return NextTurn{number,
                        {.after = after, .finalists = {finalists.begin(), finalists.end()}, .pass = pass}};
      const Trial& trial = **logged++;
      if (trial.number != number || trial.turn->pass != pass)
        throw InputError(fmt::format("final round after {} trials", after),
                         fmt::format("holds trial {} of pass {}", trial.number, trial.turn->pass),
                         fmt::format("trial {} of pass {} at this place", number, pass));
      if (trial.outcome != Outcome::ok) failed.insert(number);
      spent += trial.seconds;
      loading += load_seconds_of(trial);
    }
  }
  return std::nullopt;
}

const Finalist* FinalRound::find(std::int64_t trial) const {
  const auto found = std::ranges::find(finalists, trial, &Finalist::trial);
  return found == finalists.end() ? nullptr : &*found;
}

std::optional<FinalRound> final_round(std::span<const std::int64_t> wanted, std::int64_t after,
                                      std::span<const Trial> measured_again, const Objective& objective) {
  const FinalTurn* newest = nullptr;
  for (const Trial& trial : measured_again) {
    if (!trial.turn || trial.turn->after != after) continue;
    const std::vector<std::int64_t>& there = trial.turn->finalists;
    const bool are_all_there = std::ranges::all_of(
        wanted, [&](std::int64_t number) { return std::ranges::find(there, number) != there.end(); });
    if (are_all_there) newest = &*trial.turn;
  }
  if (wanted.empty() || newest == nullptr) return std::nullopt;
  std::vector<const Trial*> round;
  FinalRound result;
  for (const Trial& trial : measured_again) {
    if (!is_of_round(trial, newest->finalists, after)) continue;
    round.push_back(&trial);
    result.seconds += trial.seconds;
    result.load_seconds += load_seconds_of(trial);
  }

  std::size_t passes = round.size();  // as many as every finalist that did not fail has
  for (const std::int64_t number : newest->finalists) {
    const std::vector<const Trial*> turns = turns_of(number, round);
    Finalist finalist{.trial = number, .metrics = {}, .ratio = {}, .failure = ""};
    if (const Trial* trial = failure_among(turns, objective.metric)) {
      finalist.failure = fmt::format("{}: {}", name_of(trial->outcome),
                                     trial->reason.empty() ? "no " + objective.metric : trial->reason);
    } else {
      passes = std::min(passes, turns.size());
    }
    result.finalists.push_back(std::move(finalist));
  }
  result.passes = static_cast<std::int64_t>(passes);
  if (result.passes < fewest_passes) return std::nullopt;

  const std::vector<const Trial*> reference = turns_of(newest->finalists.front(), round);
  if (result.finalists.front().failure.empty())
    for (std::size_t pass = 0; pass < passes; ++pass)
      result.reference_by_pass.push_back(reference[pass]->metrics.at(objective.metric).value);
  for (Finalist& finalist : result.finalists) {
    if (!finalist.failure.empty()) continue;
    const std::vector<const Trial*> turns = turns_of(finalist.trial, round);
    std::vector<Metrics> metrics;
    std::vector<Measurement> ratios;
    for (std::size_t pass = 0; pass < passes; ++pass) {
      metrics.push_back(timed_part(turns[pass]->metrics));
      if (result.finalists.front().failure.empty() && &finalist != &result.finalists.front())
        ratios.push_back(ratio_of(turns[pass]->metrics.at(objective.metric),
                                  reference[pass]->metrics.at(objective.metric)));
    }
    finalist.metrics = over_processes(metrics);
    // A time of 0 has no ratio; no clock is that coarse, but a log may say anything.
    if (!ratios.empty() &&
        std::ranges::all_of(ratios, [](const Measurement& ratio) { return std::isfinite(ratio.value); }))
      finalist.ratio = over_passes(ratios, result.finalists.size() - 1);
  }
  return result;
}

std::optional<double> drift_of(const FinalRound& round) {
  const std::span<const double> values(round.reference_by_pass);
  if (values.size() < 6) return std::nullopt;
  const double begin = median(values.first(values.size() / 3));
  return begin > 0.0 ? std::optional(median(values.last(values.size() / 3)) / begin - 1.0) : std::nullopt;
}

std::optional<Measurement> against_itself(const FinalRound& round) {
  std::vector<Measurement> ratios;
  for (std::size_t pass = 1; pass < round.reference_by_pass.size(); pass += 2) {
    if (round.reference_by_pass[pass - 1] <= 0.0) return std::nullopt;
    Measurement& ratio = ratios.emplace_back();
    ratio.value = round.reference_by_pass[pass] / round.reference_by_pass[pass - 1];
    ratio.n = 1;
  }
  if (!quantile_ranks(ratios.size(), 0.5)) return std::nullopt;
  return over_passes(ratios, 1);
}

Metrics with_final_times(const Metrics& metrics, const Finalist& finalist) {
  Metrics all = metrics;
  for (const auto& [name, measurement] : finalist.metrics) {
    const std::optional<double> p99 = all[name].p99;
    all[name] = measurement;
    // Turns are short: where one has too few samples for a p99, the search's is the best there is.
    if (!all[name].p99) all[name].p99 = p99;
  }
  return all;
}

}  // namespace moetune
