#include "tuner/standing.h"

#include <algorithm>

#include <fmt/format.h>

#include "tuner/contender.h"

namespace moetune {
using Clock = std::chrono::steady_clock;

Standing::Standing(const TuneRequest& request) : request_(request) {
  status_.max_trials = request.max_trials;
  if (const auto most = request.different_configurations)
    status_.max_trials = std::min(status_.max_trials.value_or(*most), *most);
}

void Standing::begin_trial(std::int64_t number) {
  status_.trial = number;
  status_.doing.clear();
  trial_began_ = Clock::now();
  is_running_ = true;
  show();
}

void Standing::end_trial(const Trial& trial) {
  is_running_ = false;
  search_seconds_ += trial.seconds;
  ++status_.trials_done;
  if (trial.outcome != Outcome::infeasible) ++measured_;
  improve_best(trial);
}

void Standing::begin_final_round(std::int64_t finalists, const FinalLimits& limits) {
  status_.final_most = finalists * limits.passes;
  fewest_turns_ = finalists * limits.fewest;
  round_limit_seconds_ = limits.seconds;
  if (!status_.best.empty()) status_.best = "of the search " + status_.best;
}

void Standing::add_turn(const Trial& trial, bool is_of_this_round) {
  is_running_ = false;
  final_seconds_ += trial.seconds;
  if (!is_of_this_round) return;
  ++status_.final_done;
  round_seconds_ += trial.seconds;
}

void Standing::improve_best(const FinalRound& round) {
  const Finalist* best = nullptr;
  const auto value = [&](const Finalist& finalist) {
    return turned(request_.objectives.front(), finalist.ratio->value);
  };
  for (const Finalist& finalist : round.finalists)
    if (finalist.ratio && (best == nullptr || value(finalist) < value(*best))) best = &finalist;
  if (best == nullptr) return;
  const std::string reference = fmt::format("trial {}", round.finalists.front().trial);
  const std::string text = fmt::format("trial {}, {}", best->trial, ratio_text(*best->ratio, reference));
  // The first finalist is what the others are measured against, and has no ratio of its own.
  const bool beats_it = value(*best) < turned(request_.objectives.front(), 1.0);
  status_.best = beats_it ? text : fmt::format("{} (the nearest: {})", reference, text);
}

void Standing::doing(const std::string& words) {
  status_.doing = words;
  show();
}

void Standing::show() {
  if (!request_.on_status) return;
  const double running =
      is_running_ ? std::chrono::duration<double>(Clock::now() - trial_began_).count() : 0.0;
  status_.seconds_left = status_.final_most > 0 ? final_seconds_left() : search_seconds_left();
  if (status_.seconds_left) status_.seconds_left = std::max(*status_.seconds_left - running, 0.0);
  request_.on_status(status_);
}

// With the final round's share of the budget.
std::optional<double> Standing::search_seconds_left() const {
  std::optional<double> left;
  if (request_.budget_seconds) left = *request_.budget_seconds - search_seconds_;
  if (status_.max_trials && measured_ > 0) {
    const double mean = search_seconds_ / static_cast<double>(measured_);
    double by_count = mean * static_cast<double>(*status_.max_trials - status_.trials_done);
    if (request_.finalists && request_.budget_seconds) by_count += final_share * *request_.budget_seconds;
    left = std::min(left.value_or(by_count), by_count);
  }
  return left;
}

// By the turns so far, as far as the limit lets them be made; the fewest are made whatever they take. Before
// the first one only the limit is known.
std::optional<double> Standing::final_seconds_left() const {
  if (status_.final_done == 0) return round_limit_seconds_;
  const double turn = round_seconds_ / static_cast<double>(status_.final_done);
  const double all = turn * static_cast<double>(status_.final_most - status_.final_done);
  if (!round_limit_seconds_) return all;
  const double owed =
      turn * static_cast<double>(std::max<std::int64_t>(fewest_turns_ - status_.final_done, 0));
  return std::min(all, std::max(*round_limit_seconds_ - round_seconds_, owed));
}

void Standing::improve_best(const Trial& trial) {
  const auto values = values_of(trial, request_.objectives);
  if (!values || values->empty() || (request_.acceptable && !request_.acceptable(trial))) return;
  if (best_ && *best_ <= values->front()) return;
  best_ = values->front();
  const std::string& metric = request_.objectives.front().metric;
  status_.best = fmt::format("{:.4g} {} (trial {})", trial.metrics.at(metric).value, metric, trial.number);
}

}  // namespace moetune
