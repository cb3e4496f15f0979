#include "tuner/choose.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/knobs.h"
#include "tuner/contender.h"
#include "tuner/metric_facts.h"
#include "tuner/slowdown.h"

namespace moetune {
namespace {
using Verdict = Recommendation::Verdict;
using Contenders = std::vector<const Contender*>;

constexpr double as_good = 0.01;  // within 1 % of the best, fewer changes count more

// What is more than this many times worse than the best in the search has no chance in a final round: moods
// of a machine under load were seen to differ by 1.8.
constexpr double hopeless = 2.0;

constexpr auto not_measured_again =
    "NOT MEASURED AGAIN: there is no final round of the finalists. The times below are the search's, each "
    "measured once and at "
    "another time than the default's: what looks like a gain may be the machine's mood. 'moetune tune "
    "--resume' makes up for it.";

const Contender& best_of(const Contenders& some) {
  return **std::min_element(some.begin(), some.end(), [](const Contender* a, const Contender* b) {
    return a->value != b->value ? a->value < b->value : a->trial->number < b->trial->number;
  });
}

bool is_as_good(const Contender& contender, const Contender& best) {
  return contender.value <= best.value + as_good * std::abs(best.value);
}

// Rule 4.
const Contender& simplest_of_the_best(const Contenders& some) {
  const Contender& best = best_of(some);
  Contenders near;
  for (const Contender* contender : some)
    if (is_as_good(*contender, best)) near.push_back(contender);
  return **std::min_element(near.begin(), near.end(), [](const Contender* a, const Contender* b) {
    if (a->changes != b->changes) return a->changes < b->changes;
    return a->value != b->value ? a->value < b->value : a->trial->number < b->trial->number;
  });
}

// The knobs that cost new weights to change, as one text.
std::string weights_key(const Configuration& configuration) {
  std::string key;
  for (const Knob& knob : knobs())
    if (const auto found = configuration.values.find(std::string(knob.name));
        knob.switch_cost >= SwitchCost::weights && found != configuration.values.end())
      key += found->first + "=" + found->second + " ";
  return key;
}

std::string changes_count(int changes) {
  return changes == 1 ? "1 change from the default" : fmt::format("{} changes from the default", changes);
}

class Choice {
 public:
  // round: nullptr: as the search measured it. It must outlive the choice.
  Choice(const ChoiceInput& input, const FinalRound* round)
      : input_(input), objective_(input.objectives.front()), round_(round), all_(contenders(input, round)) {
    for (const Contender& contender : all_) {
      if (contender.is_default) default_ = &contender;
      if (contender.acceptable && (round == nullptr || contender.measured_again))
        acceptable_.push_back(&contender);
    }
  }

  std::vector<std::int64_t> finalists() {
    if (acceptable_.empty() || !is_timed(objective_.metric) || misses_required_slo()) return {};
    std::vector<std::int64_t> numbers;
    const auto add = [&](std::int64_t number) {
      if (numbers.size() < most_finalists && std::ranges::find(numbers, number) == numbers.end())
        numbers.push_back(number);
    };
    if (default_ != nullptr && default_->acceptable) add(default_->trial->number);
    if (const auto would_be = decide().trial) add(*would_be);
    Contenders others = acceptable_;
    std::ranges::stable_sort(others, {}, [](const Contender* contender) { return contender->value; });
    const double best = others.front()->value;
    const double worst = best > 0.0 ? hopeless * best : best / hopeless;
    for (const Contender* contender : others)
      if (contender->value <= worst) add(contender->trial->number);
    return by_weights(numbers);
  }

  Recommendation decide() {
    if (all_.empty()) return {Verdict::nothing_measured, {}, nothing_measured(), {}, ""};
    if (acceptable_.empty()) return failed_again() != nullptr ? nothing_works_again() : nothing_meets_gate();
    if (misses_required_slo()) return nothing_keeps_slo();
    if (default_ == nullptr || !default_->acceptable) return without_default();

    Contenders better;
    for (const Contender* contender : acceptable_)
      if (!contender->is_default && clears_default(*contender, *default_, objective_))
        better.push_back(contender);
    if (!better.empty() && is_as_good(*default_, best_of(better))) return too_little(best_of(better));
    if (!better.empty()) return replaced(simplest_of_the_best(better));
    return default_stays();
  }

 private:
  // Those with the same weights stand together, in the order of the first of each: in turns they then share
  // what is loaded.
  std::vector<std::int64_t> by_weights(const std::vector<std::int64_t>& numbers) const {
    std::vector<std::string> keys;
    std::vector<std::vector<std::int64_t>> groups;
    for (const std::int64_t number : numbers) {
      const std::string key = weights_key(input_.trials[static_cast<std::size_t>(number)].configuration);
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

  // "top_k 7: 0.41 ms per token (0.40-0.42)"
  std::string named(const Contender& contender) const {
    return fmt::format("{}: {}", changes_text(contender, input_.default_configuration),
                       measured_text(contender, objective_));
  }

  std::string slo_sentence(const Contender& chosen) const {
    if (!input_.slo) return "";
    std::string words = slo_text(chosen, input_);
    words.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(words.front())));
    if (chosen.keeps_slo == false) words += "; no acceptable configuration keeps it";
    return " " + words + ".";
  }

  Recommendation made(Verdict verdict, const Contender& chosen, const std::string& reason) const {
    Recommendation recommendation{verdict, chosen.trial->number, reason, {}, ""};
    recommendation.reason +=
        others_text(chosen, default_, input_) + slo_sentence(chosen) + best_rejected(chosen);
    set_runner_up(recommendation, chosen);
    return recommendation;
  }

  Recommendation replaced(const Contender& chosen) const {
    return made(
        Verdict::replaced, chosen,
        fmt::format("{}, {} the default's {}{}; {}.", named(chosen),
                    chosen.ratio ? ratio_text(*chosen.ratio) : difference_text(chosen, *default_, objective_),
                    measured_text(*default_, objective_), in_turns(), gate_text(chosen, input_)));
  }

  // How the figures were made, where that is worth saying.
  std::string in_turns() const {
    if (round_ == nullptr) return "";
    return fmt::format(", measured {}{} times in fresh processes",
                       round_->finalists.size() > 1 ? "in turns " : "again ", round_->passes);
  }

  Recommendation default_stays() const {
    const Contender& best = best_of(acceptable_);
    const std::string own =
        fmt::format("The default configuration stays: {}{}; {}.", measured_text(*default_, objective_),
                    in_turns(), gate_text(*default_, input_));
    if (best.is_default || !(best.value < default_->value))
      return made(Verdict::default_stays, *default_,
                  own + " No acceptable configuration was measured to be better.");
    if (best.ratio)
      return made(
          Verdict::indeterminate, *default_,
          fmt::format("{} Indeterminate: {} is {} the default's, which may be no difference at all{}.", own,
                      named(best), ratio_text(*best.ratio), passes_wanted(*best.ratio)));
    const std::string doubt = best.interval && default_->interval
                                  ? "but the intervals overlap"
                                  : "but there are too few samples for an interval";
    return made(Verdict::indeterminate, *default_,
                fmt::format("{} Indeterminate: {} looks {}, {}. {}.", own, named(best),
                            better_text(best, *default_), doubt, samples_wanted(best)));
  }

  // Beyond doubt, but so little that rule 4 prefers what needs no change.
  Recommendation too_little(const Contender& best) const {
    return made(Verdict::default_stays, *default_,
                fmt::format("The default configuration stays: {}{}; {}. {} is {}, which is within 1 %, and "
                            "the default needs no "
                            "change.",
                            measured_text(*default_, objective_), in_turns(), gate_text(*default_, input_),
                            named(best), better_text(best, *default_)));
  }

  // "; about 40 passes instead of 9 would tell"
  std::string passes_wanted(const Measurement& ratio) const {
    if (!ratio.low || !ratio.high) return fmt::format("; at least {} passes would tell more", fewest_rounds);
    const bool is_under = ratio.value < 1.0;
    const double reach = is_under ? *ratio.high - ratio.value : ratio.value - *ratio.low;
    const double margin = std::abs(1.0 - ratio.value);
    if (margin < as_good) return ", and less than 1 % does not matter";
    return fmt::format("; about {} passes instead of {} would tell",
                       rounds_to_narrow(round_->passes, reach, margin), round_->passes);
  }

  std::string samples_wanted(const Contender& best) const {
    const Measurement& measured = best.metrics.at(objective_.metric);
    if (!best.interval || !default_->interval) return "More samples could tell them apart";
    const double reach = best.interval->high - best.value + default_->value - default_->interval->low;
    return fmt::format("About {} samples of each instead of {} could tell them apart",
                       rounds_to_narrow(measured.n, reach, default_->value - best.value), measured.n);
  }

  Recommendation without_default() const {
    const Contender& chosen = simplest_of_the_best(acceptable_);
    return made(
        Verdict::no_default, chosen,
        fmt::format("{}{}; {}. {}", named(chosen), in_turns(), gate_text(chosen, input_), why_no_default()));
  }

  std::string why_no_default() const {
    if (default_ != nullptr)
      return fmt::format("The default configuration is no contender: it {}.",
                         rejection_text(*default_, input_));
    for (const Trial& trial : input_.trials)
      if (trial.configuration == input_.default_configuration)
        return fmt::format(
            "The default configuration could not be measured ({}{}{}), so there is nothing to compare with.",
            name_of(trial.outcome), trial.reason.empty() ? "" : ": ", trial.reason);
    return "The default configuration was not measured, so there is nothing to compare with.";
  }

  std::string nothing_measured() const {
    if (input_.trials.empty()) return "No recommendation: nothing was measured.";
    std::map<std::string, int> outcomes;
    int without_metric = 0;
    for (const Trial& trial : input_.trials) {
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
    if (without_metric > 0) text += fmt::format("{}{} without {}", joint, without_metric, objective_.metric);
    text += ").";
    for (const Trial& trial : input_.trials)
      if (!trial.reason.empty()) return text + fmt::format(" The first one: {}.", trial.reason);
    return text;
  }

  // Accurate enough, and worked in the search only.
  const Contender* failed_again() const {
    const auto found = std::ranges::find_if(
        all_, [](const Contender& one) { return one.accurate_enough && !one.failure.empty(); });
    return found == all_.end() ? nullptr : &*found;
  }

  Recommendation nothing_works_again() const {
    return {
        Verdict::nothing_measured,
        {},
        fmt::format("No recommendation: of what meets the {} gate nothing could be measured again; {} {}.",
                    input_.gate.name, changes_text(*failed_again(), input_.default_configuration),
                    rejection_text(*failed_again(), input_)),
        {},
        ""};
  }

  Recommendation nothing_meets_gate() const {
    // How many times the allowed distance, in the worse of the two metrics.
    const auto excess = [&](const Contender& contender) {
      const auto kl = contender.metrics.find("kl_mean");
      const auto agreement = contender.metrics.find("top1_agreement");
      if (kl == contender.metrics.end() || agreement == contender.metrics.end()) return HUGE_VAL;
      return std::max(kl->second.value / input_.gate.most_kl,
                      (1.0 - agreement->second.value) / (1.0 - input_.gate.least_agreement));
    };
    const Contender& nearest =
        *std::min_element(all_.begin(), all_.end(),
                          [&](const Contender& a, const Contender& b) { return excess(a) < excess(b); });
    return {
        Verdict::nothing_meets_gate,
        {},
        fmt::format(
            "No recommendation: none of {} measured configurations meets the {} gate. The nearest, {}; {}.",
            all_.size(), input_.gate.name, named(nearest), gate_text(nearest, input_)) +
            (nearest.gate.verdict == GateVerdict::unknown ? " '--gate none' recommends by speed alone." : ""),
        nearest.trial->number,
        gate_text(nearest, input_)};
  }

  // Where nothing keeps the level, all that is accurate enough stays acceptable: see contenders().
  bool misses_required_slo() const {
    return input_.slo_required &&
           std::ranges::all_of(acceptable_, [](const Contender* one) { return one->keeps_slo == false; });
  }

  Recommendation nothing_keeps_slo() const {
    const auto value = [&](const Contender* contender) {
      return value_for(*input_.slo, contender->metrics).value_or(HUGE_VAL);
    };
    const Contender& nearest = **std::ranges::min_element(acceptable_, {}, value);
    const std::string words = slo_text(nearest, input_);
    return {Verdict::nothing_keeps_slo,
            {},
            fmt::format("No recommendation: none of {} acceptable configurations keeps the service level "
                        "that was asked for. The "
                        "nearest, {}, {}.",
                        acceptable_.size(), named(nearest), words),
            nearest.trial->number,
            words};
  }

  // What a reader of the front will ask: why not the one at its end?
  std::string best_rejected(const Contender& chosen) const {
    Contenders rejected;
    for (const Contender& contender : all_)
      if (!contender.acceptable && contender.search_value < chosen.search_value)
        rejected.push_back(&contender);
    if (rejected.empty()) return "";
    const Contender& best = best_of(rejected);
    return fmt::format(" Best of what is not acceptable, {}; {}.", named(best), rejection_text(best, input_));
  }

  void set_runner_up(Recommendation& recommendation, const Contender& chosen) const {
    Contenders others;
    for (const Contender* contender : acceptable_)
      if (contender != &chosen) others.push_back(contender);
    // Beside one that was measured again alone, by what the search says: it was too slow to be a finalist.
    if (others.empty())
      for (const Contender& contender : all_)
        if (contender.acceptable && &contender != &chosen) others.push_back(&contender);
    if (others.empty()) return;
    const Contender& runner_up = best_of(others);
    recommendation.runner_up = runner_up.trial->number;
    std::string why;
    if (runner_up.value >= chosen.value) {
      why = better_text(runner_up, chosen);
    } else if (default_ != nullptr && default_->acceptable && !runner_up.is_default &&
               !clears_default(runner_up, *default_, objective_)) {
      why = better_text(runner_up, chosen) + ", but not better than the default beyond doubt";
    } else {
      why = fmt::format("{}, but within 1 %, and it takes {} instead of {}", better_text(runner_up, chosen),
                        changes_count(runner_up.changes), chosen.changes);
    }
    recommendation.why_not_runner_up = fmt::format("{}, {}", named(runner_up), why);
  }

  const ChoiceInput& input_;
  const Objective& objective_;
  const FinalRound* round_;
  std::vector<Contender> all_;
  Contenders acceptable_;
  const Contender* default_ = nullptr;
};

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

namespace {

// How far the true value of what another study recommends may lie from this one's: a finalist passes for the
// best as long as its interval reaches there.
std::optional<double> tolerance_of(const Recommendation& recommendation, const FinalRound& round,
                                   const Objective& objective) {
  if (!recommendation.trial) return std::nullopt;
  const auto better_end = [&](const Measurement& ratio) {
    return objective.maximize ? *ratio.high : *ratio.low;
  };
  const Finalist* chosen = round.find(*recommendation.trial);
  if (chosen == nullptr) return std::nullopt;
  if (chosen->ratio) {
    if (!chosen->ratio->low || !chosen->ratio->high) return std::nullopt;
    return as_good + (*chosen->ratio->high - *chosen->ratio->low) / chosen->ratio->value;
  }
  double most = 0.0;  // of the first finalist: how much better another one may be
  for (const Finalist& finalist : round.finalists) {
    if (!finalist.ratio) continue;
    if (!finalist.ratio->low || !finalist.ratio->high) return std::nullopt;
    const double end = better_end(*finalist.ratio);
    most = std::max(most, objective.maximize ? end - 1.0 : 1.0 - end);
  }
  return as_good + most;
}

}  // namespace

namespace {

// By how much the search still improved in its second half (0.04: the best acceptable value fell by 4 %):
// what another search of the same length may have found sooner, or not yet.
double still_found(const ChoiceInput& input) {
  std::vector<Contender> all = contenders(input, nullptr);
  std::erase_if(all, [](const Contender& one) { return !one.acceptable; });
  if (all.empty()) return 0.0;
  double best = all.front().search_value;
  double best_of_half = best;
  for (const Contender& one : all) {
    best = std::min(best, one.search_value);
    if (2 * one.trial->number < std::ssize(input.trials))
      best_of_half = std::min(best_of_half, one.search_value);
  }
  return best_of_half == 0.0 ? 0.0 : std::abs(best_of_half - best) / std::abs(best_of_half);
}

}  // namespace

std::vector<std::int64_t> finalists(const ChoiceInput& input) { return Choice(input, nullptr).finalists(); }

Recommendation choose(const ChoiceInput& input) {
  const std::vector<std::int64_t> wanted = finalists(input);
  std::optional<FinalRound> round =
      final_round(wanted, std::ssize(input.trials), input.measured_again, input.objectives.front());
  Recommendation recommendation = Choice(input, round ? &*round : nullptr).decide();
  // One alone was compared with nothing, so no gain of its own can be the mood's.
  if (wanted.size() > 1 && !round) recommendation.caution = not_measured_again;
  if (round) recommendation.tolerance = tolerance_of(recommendation, *round, input.objectives.front());
  if (recommendation.tolerance) *recommendation.tolerance += still_found(input);
  recommendation.final_round = std::move(round);
  return recommendation;
}

}  // namespace moetune
