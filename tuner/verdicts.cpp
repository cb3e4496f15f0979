#include "tuner/verdicts.h"

#include <cctype>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "tuner/slowdown.h"

namespace moetune {
namespace {
using Verdict = Recommendation::Verdict;

std::string changes_count(int changes) {
  return changes == 1 ? "1 change from the default" : fmt::format("{} changes from the default", changes);
}

std::string slo_sentence(const Contest& contest, const Contender& chosen) {
  if (!contest.input.slo) return "";
  std::string words = slo_text(chosen, contest.input);
  words.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(words.front())));
  if (chosen.keeps_slo == false) words += "; no acceptable configuration keeps it";
  return " " + words + ".";
}

// What a reader of the front will ask: why not the one at its end?
std::string best_rejected(const Contest& contest, const Contender& chosen) {
  Contenders rejected;
  for (const Contender& contender : contest.all)
    if (!contender.acceptable && contender.search_value < chosen.search_value) rejected.push_back(&contender);
  if (rejected.empty()) return "";
  const Contender& best = best_of(rejected);
  return fmt::format(" Best of what is not acceptable, {}; {}.", contest.named(best),
                     rejection_text(best, contest.input));
}

void set_runner_up(const Contest& contest, Recommendation& recommendation, const Contender& chosen) {
  Contenders others;
  for (const Contender* contender : contest.acceptable)
    if (contender != &chosen) others.push_back(contender);
  // Beside one that was measured again alone, by what the search says: it was too slow to be a finalist.
  if (others.empty())
    for (const Contender& contender : contest.all)
      if (contender.acceptable && &contender != &chosen) others.push_back(&contender);
  if (others.empty()) return;
  const Contender& runner_up = best_of(others);
  recommendation.runner_up = runner_up.trial->number;
  std::string why;
  if (runner_up.value >= chosen.value) {
    why = better_text(runner_up, chosen);
  } else if (contest.default_competes() && !runner_up.is_default &&
             !clears_default(runner_up, *contest.default_one, contest.objective)) {
    why = better_text(runner_up, chosen) + ", but not better than the default beyond doubt";
  } else {
    why = fmt::format("{}, but within 1 %, and it takes {} instead of {}", better_text(runner_up, chosen),
                      changes_count(runner_up.changes), chosen.changes);
  }
  recommendation.why_not_runner_up = fmt::format("{}, {}", contest.named(runner_up), why);
}

Recommendation made(const Contest& contest, Verdict verdict, const Contender& chosen,
                    const std::string& reason) {
  Recommendation recommendation{verdict, chosen.trial->number, reason, {}, ""};
  recommendation.reason += others_text(chosen, contest.default_one, contest.input) +
                           slo_sentence(contest, chosen) + best_rejected(contest, chosen);
  set_runner_up(contest, recommendation, chosen);
  return recommendation;
}

// "; about 40 passes instead of 9 would tell"
std::string passes_wanted(const Contest& contest, const Measurement& ratio) {
  if (!ratio.low || !ratio.high) return fmt::format("; at least {} passes would tell more", fewest_rounds);
  const bool is_under = ratio.value < 1.0;
  const double reach = is_under ? *ratio.high - ratio.value : ratio.value - *ratio.low;
  const double margin = std::abs(1.0 - ratio.value);
  if (margin < as_good) return ", and less than 1 % does not matter";
  return fmt::format("; about {} passes instead of {} would tell",
                     rounds_to_narrow(contest.round->passes, reach, margin), contest.round->passes);
}

std::string samples_wanted(const Contest& contest, const Contender& best) {
  const Measurement& measured = best.metrics.at(contest.objective.metric);
  if (!best.interval || !contest.default_one->interval) return "More samples could tell them apart";
  const double reach =
      best.interval->high - best.value + contest.default_one->value - contest.default_one->interval->low;
  return fmt::format("About {} samples of each instead of {} could tell them apart",
                     rounds_to_narrow(measured.n, reach, contest.default_one->value - best.value),
                     measured.n);
}

std::string why_no_default(const Contest& contest) {
  if (contest.default_one != nullptr)
    return fmt::format("The default configuration is no contender: it {}.",
                       rejection_text(*contest.default_one, contest.input));
  for (const Trial& trial : contest.input.trials)
    if (trial.configuration == contest.input.default_configuration)
      return fmt::format(
          "The default configuration could not be measured ({}{}{}), so there is nothing to compare with.",
          name_of(trial.outcome), trial.reason.empty() ? "" : ": ", trial.reason);
  return "The default configuration was not measured, so there is nothing to compare with.";
}

}  // namespace

Recommendation replaced(const Contest& contest, const Contender& chosen) {
  return made(contest, Verdict::replaced, chosen,
              fmt::format("{}, {} the default's {}{}; {}.", contest.named(chosen),
                          chosen.ratio ? ratio_text(*chosen.ratio)
                                       : difference_text(chosen, *contest.default_one, contest.objective),
                          measured_text(*contest.default_one, contest.objective), contest.in_turns(),
                          gate_text(chosen, contest.input)));
}

Recommendation default_stays(const Contest& contest) {
  const Contender& best = best_of(contest.acceptable);
  const std::string own = fmt::format("The default configuration stays: {}{}; {}.",
                                      measured_text(*contest.default_one, contest.objective),
                                      contest.in_turns(), gate_text(*contest.default_one, contest.input));
  if (best.is_default || !(best.value < contest.default_one->value))
    return made(contest, Verdict::default_stays, *contest.default_one,
                own + " No acceptable configuration was measured to be better.");
  if (best.ratio)
    return made(
        contest, Verdict::indeterminate, *contest.default_one,
        fmt::format("{} Indeterminate: {} is {} the default's, which may be no difference at all{}.", own,
                    contest.named(best), ratio_text(*best.ratio), passes_wanted(contest, *best.ratio)));
  const std::string doubt = best.interval && contest.default_one->interval
                                ? "but the intervals overlap"
                                : "but there are too few samples for an interval";
  return made(contest, Verdict::indeterminate, *contest.default_one,
              fmt::format("{} Indeterminate: {} looks {}, {}. {}.", own, contest.named(best),
                          better_text(best, *contest.default_one), doubt, samples_wanted(contest, best)));
}

Recommendation too_little(const Contest& contest, const Contender& best) {
  return made(contest, Verdict::default_stays, *contest.default_one,
              fmt::format("The default configuration stays: {}{}; {}. {} is {}, which is within 1 %, and "
                          "the default needs no "
                          "change.",
                          measured_text(*contest.default_one, contest.objective), contest.in_turns(),
                          gate_text(*contest.default_one, contest.input), contest.named(best),
                          better_text(best, *contest.default_one)));
}

Recommendation without_default(const Contest& contest) {
  const Contender& chosen = simplest_of_the_best(contest.acceptable);
  return made(contest, Verdict::no_default, chosen,
              fmt::format("{}{}; {}. {}", contest.named(chosen), contest.in_turns(),
                          gate_text(chosen, contest.input), why_no_default(contest)));
}

}  // namespace moetune
