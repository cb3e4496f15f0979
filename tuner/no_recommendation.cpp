#include "tuner/no_recommendation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace moetune {
namespace {
using Verdict = Recommendation::Verdict;

std::string nothing_measured(const Contest& contest) {
  if (contest.input.trials.empty()) return "No recommendation: nothing was measured.";
  std::map<std::string, int> outcomes;
  int without_metric = 0;
  for (const Trial& trial : contest.input.trials) {
    if (trial.outcome == Outcome::ok) {
      ++without_metric;
    } else {
      ++outcomes[std::string(name_of(trial.outcome))];
    }
  }
  std::string text = "No recommendation: no trial could be measured (";
  const char* joint = "";
  for (const auto& [outcome, count] : outcomes)
    text += fmt::format("{}{} {}", std::exchange(joint, ", "), count, outcome);
  if (without_metric > 0)
    text += fmt::format("{}{} without {}", joint, without_metric, contest.objective.metric);
  text += ").";
  for (const Trial& trial : contest.input.trials)
    if (!trial.reason.empty()) {
      text += fmt::format(" The first one: {}.", trial.reason);
      break;
    }
  if (outcomes.contains(std::string(name_of(Outcome::timed_out))))
    text +=
        " More time helps (a larger --budget, or --trial-limit), or less to do: fewer layers or experts of a "
        "preset (--model NAME:layers=2,experts=16), a shorter prompt and answer (--workload FILE).";
  return text;
}

// Accurate enough, and worked in the search only.
const Contender* failed_again(const Contest& contest) {
  const auto found = std::ranges::find_if(
      contest.all, [](const Contender& one) { return one.accurate_enough && !one.failure.empty(); });
  return found == contest.all.end() ? nullptr : &*found;
}

Recommendation nothing_works_again(const Contest& contest) {
  return {Verdict::nothing_measured,
          {},
          fmt::format("No recommendation: of what meets the {} gate nothing could be measured again; {} {}.",
                      contest.input.gate.name,
                      changes_text(*failed_again(contest), contest.input.default_configuration),
                      rejection_text(*failed_again(contest), contest.input)),
          {},
          ""};
}

Recommendation nothing_meets_gate(const Contest& contest) {
  // How many times the allowed distance, in the worse of the two metrics.
  const auto excess = [&](const Contender& contender) {
    const auto kl = contender.metrics.find("kl_mean");
    const auto agreement = contender.metrics.find("top1_agreement");
    if (kl == contender.metrics.end() || agreement == contender.metrics.end()) return HUGE_VAL;
    return std::max(kl->second.value / contest.input.gate.most_kl,
                    (1.0 - agreement->second.value) / (1.0 - contest.input.gate.least_agreement));
  };
  const Contender& nearest =
      *std::min_element(contest.all.begin(), contest.all.end(),
                        [&](const Contender& a, const Contender& b) { return excess(a) < excess(b); });
  return {
      Verdict::nothing_meets_gate,
      {},
      fmt::format(
          "No recommendation: none of {} measured configurations meets the {} gate. The nearest, {}; {}.",
          contest.all.size(), contest.input.gate.name, contest.named(nearest),
          gate_text(nearest, contest.input)) +
          (nearest.gate.verdict == GateVerdict::unknown ? " '--gate none' recommends by speed alone." : ""),
      nearest.trial->number,
      gate_text(nearest, contest.input)};
}

Recommendation nothing_keeps_slo(const Contest& contest) {
  const auto value = [&](const Contender* contender) {
    return least_value_for(*contest.input.slo, contender->metrics).value_or(HUGE_VAL);
  };
  const Contender& nearest = **std::ranges::min_element(contest.acceptable, {}, value);
  const std::string words = slo_text(nearest, contest.input);
  return {Verdict::nothing_keeps_slo,
          {},
          fmt::format("No recommendation: none of {} acceptable configurations keeps the service level "
                      "that was asked for. The "
                      "nearest, {}, {}.",
                      contest.acceptable.size(), contest.named(nearest), words),
          nearest.trial->number,
          words};
}

}  // namespace

// Where nothing keeps the level, all that is accurate enough stays acceptable: see contenders().
bool misses_required_slo(const Contest& contest) {
  return contest.input.slo_required && std::ranges::all_of(contest.acceptable, [](const Contender* one) {
           return one->keeps_slo == false;
         });
}

std::optional<Recommendation> no_recommendation(const Contest& contest) {
  if (contest.all.empty())
    return Recommendation{Verdict::nothing_measured, {}, nothing_measured(contest), {}, ""};
  if (contest.acceptable.empty())
    return failed_again(contest) != nullptr ? nothing_works_again(contest) : nothing_meets_gate(contest);
  if (misses_required_slo(contest)) return nothing_keeps_slo(contest);
  return std::nullopt;
}

}  // namespace moetune
