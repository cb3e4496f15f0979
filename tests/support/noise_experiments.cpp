#include "tests/support/noise_experiments.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "tests/support/small_study.h"
#include "tuner/autocorrelation.h"
#include "tuner/choose.h"
#include "tuner/counter_rng.h"
#include "tuner/final_round.h"
#include "tuner/nightly_check.h"
#include "tuner/slowdown.h"
#include "tuner/statistics.h"

namespace moetune {
namespace {

constexpr std::size_t measure_processes = 25;  // as `measure` starts them
constexpr int resamples = 400;                 // of the bootstrap

// Plays the final round of a search and decides. truth: tpot_ms by trial.
Recommendation decided(const ChoiceInput& searched, Machine& machine,
                       const std::map<std::int64_t, double>& truth) {
  ChoiceInput input = searched;
  const std::vector<std::int64_t> who = finalists(input);
  const auto after = static_cast<std::int64_t>(input.trials.size());
  std::vector<Trial> turns;
  while (const auto next = next_turn(who, after, turns, {})) {
    Trial turn = input.trials[static_cast<std::size_t>(next->trial)];
    turn.metrics = {{"tpot_ms", machine.time(truth.at(next->trial))}};
    turn.turn = next->turn;
    turns.push_back(std::move(turn));
  }
  input.measured_again = turns;
  return choose(input);
}

// Block bootstrap of the median: blocks as long as the correlation asks for, drawn anywhere in the series
// (Künsch 1989).
Interval bootstrap_interval(const std::vector<double>& series, std::uint32_t seed) {
  const std::size_t n = series.size();
  const std::vector<double> lags = autocorrelations(series, 1);
  const double correlation = std::clamp(n > 1 ? lags[1] : 0.0, 0.0, 0.95);
  // The length that is best for a series whose correlation falls by that share from lag to lag (Hall,
  // Horowitz and Jing 1995).
  const double best = std::cbrt(1.5 * static_cast<double>(n)) *
                      std::pow(2.0 * correlation / (1.0 - correlation * correlation), 2.0 / 3.0);
  const auto block =
      std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(best)), 1, std::max<std::size_t>(1, n / 3));
  RngSequence random(CounterRng(seed, RngStage::bootstrap, 1));
  std::vector<double> medians;
  std::vector<double> drawn;
  for (int i = 0; i < resamples; ++i) {
    drawn.clear();
    while (drawn.size() < n) {
      const std::size_t first = random.below(n - block + 1);
      for (std::size_t j = first; j < first + block && drawn.size() < n; ++j) drawn.push_back(series[j]);
    }
    medians.push_back(median(drawn));
  }
  return {quantile(medians, 0.025), quantile(medians, 0.975)};
}

// series: what the bootstrap draws from; every so many re-runs, as a mean width needs no more.
void add_re_run(Coverage& all, const std::optional<Interval>& stated, const std::vector<double>& series,
                double truth) {
  constexpr int bootstrap_every = 5;
  const auto holds = [&](const Interval& interval) {
    return interval.low <= truth && truth <= interval.high;
  };
  const int run = all.re_runs++;
  if (!stated) return;
  ++all.stated;
  all.covered += holds(*stated) ? 1 : 0;
  all.width += (stated->high - stated->low) / truth;
  if (run % bootstrap_every != 0) return;
  const Interval bootstrap = bootstrap_interval(series, static_cast<std::uint32_t>(run));
  ++all.bootstraps;
  all.bootstrap_covered += holds(bootstrap) ? 1 : 0;
  all.bootstrap_width += (bootstrap.high - bootstrap.low) / truth;
}

Coverage averaged(Coverage all) {
  all.width /= std::max(1, all.stated);
  all.bootstrap_width /= std::max(1, all.bootstraps);
  return all;
}

std::optional<Interval> interval_of(const Measurement& measurement) {
  if (!has_known_confidence(measurement)) return std::nullopt;
  return Interval{*measurement.low, *measurement.high};
}

}  // namespace

Adoptions adoptions(const RecordedNoise& noise, double gain, int studies) {
  constexpr std::int64_t configurations = 10;
  constexpr std::int64_t faster = 6;
  const std::vector<Objective> objectives = objectives_named("tpot_ms,kl_mean");
  Adoptions all;
  for (int study = 0; study < studies; ++study) {
    Machine machine(noise, static_cast<std::uint64_t>(study));
    std::map<std::int64_t, double> truth;
    std::vector<Trial> trials;
    for (std::int64_t number = 0; number < configurations; ++number) {
      truth[number] = number == faster ? 1.0 - gain : 1.0;
      Trial trial;
      trial.number = number;
      trial.configuration.values["variant"] = std::to_string(number);
      trial.metrics["tpot_ms"] = machine.time(truth[number]);
      trial.metrics["kl_mean"].value = 0.001;
      trial.metrics["top1_agreement"].value = 0.99;
      trials.push_back(std::move(trial));
    }
    const Recommendation verdict = decided({.trials = trials,
                                            .gate = gate_named("int8"),
                                            .objectives = objectives,
                                            .default_configuration = trials.front().configuration,
                                            .accuracy_parameters = {},
                                            .slo = {}},
                                           machine, truth);
    ++all.studies;
    all.replaced += verdict.verdict == Recommendation::Verdict::replaced ? 1 : 0;
    all.right += gain > 0.0 && verdict.trial == faster ? 1 : 0;
    all.indeterminate += verdict.verdict == Recommendation::Verdict::indeterminate ? 1 : 0;
    all.passes += static_cast<double>(verdict.final_round ? verdict.final_round->passes : 0) / studies;
  }
  return all;
}

Repeats repeats(const RecordedNoise& noise, int studies, std::size_t trials_each) {
  const SmallStudy small;
  struct Chosen {
    std::string key;
    double true_ms = 0.0;
    double tolerance = 0.0;
  };
  std::vector<Chosen> outcomes;
  for (int study = 0; study < studies; ++study) {
    Machine machine(noise, 1000 + static_cast<std::uint64_t>(study));
    const auto searcher = small.searcher("nsga2", 1000 + static_cast<std::uint64_t>(study));
    std::map<std::int64_t, double> truth;
    std::vector<Trial> trials;
    while (trials.size() < trials_each) {
      const std::optional<Configuration> asked =
          trials.empty() ? small.default_configuration : searcher->ask();
      if (!asked) break;
      Trial trial = small.measured(*asked, std::ssize(trials));
      if (trial.outcome == Outcome::ok) {
        truth[trial.number] = trial.metrics.at("tpot_ms").value;
        trial.metrics["tpot_ms"] = machine.time(truth[trial.number]);
        trial.metrics["top1_agreement"].value = 0.99;
      }
      searcher->tell(trial);
      trials.push_back(std::move(trial));
    }
    const Recommendation verdict = decided({.trials = trials,
                                            .gate = gate_named("int8"),
                                            .objectives = small.objectives,
                                            .default_configuration = small.default_configuration,
                                            .accuracy_parameters = {},
                                            .slo = {}},
                                           machine, truth);
    const Trial& chosen = trials[static_cast<std::size_t>(verdict.trial.value())];
    outcomes.push_back(
        {chosen.configuration.key(), truth.at(chosen.number), verdict.tolerance.value_or(0.0)});
  }
  std::map<std::string, int> counts;
  for (const Chosen& outcome : outcomes) ++counts[outcome.key];
  const auto usual = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  const double usual_ms = std::ranges::find(outcomes, usual->first, &Chosen::key)->true_ms;
  Repeats all{.studies = studies, .same = usual->second, .each = {}, .usual = usual->first};
  std::vector<double> tolerances;
  for (const Chosen& outcome : outcomes) {
    tolerances.push_back(outcome.tolerance);
    all.each.push_back(
        fmt::format("{} {:.4f} tolerance {:.3f}", outcome.key, outcome.true_ms, outcome.tolerance));
    const bool is_near = std::abs(usual_ms - outcome.true_ms) <= outcome.tolerance * outcome.true_ms;
    all.within_tolerance += outcome.key == usual->first || is_near ? 1 : 0;
  }
  all.tolerance = median(tolerances);
  return all;
}

Coverage coverage(const std::function<std::vector<double>(std::uint32_t)>& series, double truth,
                  int re_runs) {
  Coverage all;
  for (std::uint32_t run = 0; run < static_cast<std::uint32_t>(re_runs); ++run) {
    const std::vector<double> samples = series(run);
    add_re_run(all, interval_of(time_measurement(samples, "")), samples, truth);
  }
  return averaged(all);
}

Coverage measure_coverage(const RecordedNoise& noise, std::size_t block, int re_runs) {
  Coverage all;
  for (std::uint32_t run = 0; run < static_cast<std::uint32_t>(re_runs); ++run) {
    RngSequence random(CounterRng(5, RngStage::bootstrap, run));
    std::vector<Measurement> processes;
    std::vector<double> values;
    while (processes.size() < measure_processes) {
      const std::size_t first = random.below(noise.processes());
      for (std::size_t i = first; i < first + block && processes.size() < measure_processes; ++i) {
        processes.push_back(time_measurement(noise.factors(i), ""));
        values.push_back(processes.back().value);
      }
    }
    add_re_run(all, interval_of(over_processes(processes)), values, 1.0);
  }
  return averaged(all);
}

Coverage ratio_coverage(const RecordedNoise& noise, std::int64_t rounds, int re_runs) {
  Coverage all;
  for (std::uint32_t run = 0; run < static_cast<std::uint32_t>(re_runs); ++run) {
    std::size_t next = CounterRng(6, RngStage::bootstrap, run).below(noise.processes(), 0);
    std::vector<double> first;
    std::vector<double> second;
    std::vector<double> ratios;
    for (std::int64_t round = 0; round < rounds; ++round) {
      double a = noise.level(next++);
      double b = noise.level(next++);
      if (round % 2 == 1) std::swap(a, b);  // in turns: now the other one goes first
      first.push_back(a);
      second.push_back(b);
      ratios.push_back(b / a);
    }
    const Slowdown slowdown = paired_slowdown(first, second);
    std::optional<Interval> stated = slowdown.interval;
    if (slowdown.has_alike_neighbours) stated.reset();  // rough, and says so
    if (stated) stated = Interval{1.0 + stated->low, 1.0 + stated->high};
    add_re_run(all, stated, ratios, 1.0);
  }
  return averaged(all);
}

Alarms alarms(const RecordedNoise& noise, double slowdown, double threshold, std::int64_t rounds,
              int trials) {
  Alarms all;
  for (std::uint32_t trial = 0; trial < static_cast<std::uint32_t>(trials); ++trial) {
    std::size_t next = CounterRng(7, RngStage::bootstrap, trial).below(noise.processes(), 0);
    std::vector<double> baseline;
    std::vector<double> canary;
    for (std::int64_t round = 0; round < rounds; ++round) {
      double a = noise.level(next++);
      double b = noise.level(next++);
      if (round % 2 == 1) std::swap(a, b);
      baseline.push_back(a);
      canary.push_back((1.0 + slowdown) * b);
    }
    ++all.trials;
    switch (judge_slowdown(paired_slowdown(baseline, canary), threshold)) {
      case SlowdownVerdict::regression:
        ++all.regressions;
        break;
      case SlowdownVerdict::ok:
        ++all.ok;
        break;
      case SlowdownVerdict::indeterminate:
        ++all.indeterminate;
        break;
    }
  }
  return all;
}

namespace {

constexpr std::size_t checked = 3;  // baseline, default and runner-up

// Their values by pass in one half of the recording, `factor` times what they are in the long run.
std::vector<std::vector<double>> half_of(const RecordedNoise& noise, std::size_t begin, double factor) {
  std::vector<std::vector<double>> values(checked);
  const auto passes = static_cast<std::size_t>(usual_passes);
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const std::size_t first = begin + pass * (noise.processes() / 2) / passes;
    for (std::size_t i = 0; i < checked; ++i) {
      const std::size_t place = pass % 2 == 0 ? i : checked - 1 - i;  // there and back
      values[i].push_back(factor * noise.level(first + place));
    }
  }
  return values;
}

}  // namespace

namespace {

Alarms judged(int trials, double threshold,
              const std::function<std::vector<NightlyPoint>(std::uint32_t)>& points) {
  Alarms all;
  for (std::uint32_t trial = 0; trial < static_cast<std::uint32_t>(trials); ++trial) {
    NightlyInput input;
    input.threshold = threshold;
    input.objective = objectives_named("tpot_ms").front();
    input.gate = gate_named("none");
    input.points = points(trial);
    compare_rounds(input.points, input.objective);
    const NightlyVerdict verdict = judge_nightly(input).verdict;
    ++all.trials;
    all.regressions += verdict == NightlyVerdict::regression ? 1 : 0;
    all.ok += verdict == NightlyVerdict::ok ? 1 : 0;
    all.indeterminate += verdict == NightlyVerdict::indeterminate ? 1 : 0;
  }
  return all;
}

}  // namespace

Alarms nights(const RecordedNoise& noise, double slowdown, double threshold, int trials) {
  constexpr std::array roles = {NightlyRole::baseline, NightlyRole::standard, NightlyRole::runner_up};
  return judged(trials, threshold, [&](std::uint32_t trial) {
    const std::size_t begin = CounterRng(8, RngStage::bootstrap, trial).below(noise.processes(), 0);
    const auto then = half_of(noise, begin, 1.0);
    const auto now = half_of(noise, begin + noise.processes() / 2, 1.0 + slowdown);
    std::vector<NightlyPoint> points;
    for (std::size_t i = 0; i < checked; ++i) {
      NightlyPoint& point = points.emplace_back();
      point.role = roles[i];
      point.rounds_then = then[i];
      point.rounds_now = now[i];
    }
    return points;
  });
}

Alarms nights_beside(const RecordedNoise& noise, double slowdown, double threshold, int trials) {
  constexpr std::size_t passes = 60;
  return judged(trials, threshold, [&](std::uint32_t trial) {
    std::size_t next = CounterRng(9, RngStage::bootstrap, trial).below(noise.processes(), 0);
    NightlyPoint point;
    for (std::size_t pass = 0; pass < passes; ++pass) {
      double beside = noise.level(next++);
      double now = noise.level(next++);
      if (pass % 2 == 1) std::swap(beside, now);  // there and back
      point.rounds_beside.push_back(beside);
      point.rounds_now.push_back((1.0 + slowdown) * now);
    }
    return std::vector<NightlyPoint>{point};
  });
}

}  // namespace moetune
