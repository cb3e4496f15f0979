#include "tuner/targets/tax_runs.h"

#include <numeric>
#include <optional>
#include <utility>

namespace moetune {
namespace {

std::vector<std::int64_t> lengths_of(const std::vector<TaxStep>& steps) {
  std::vector<std::int64_t> lengths;
  for (const TaxStep& step : steps) lengths.push_back(step.account.length_ns);
  return lengths;
}

std::vector<Account> chosen(const std::vector<TaxStep>& steps, const std::vector<std::size_t>& which) {
  std::vector<Account> accounts;
  for (const std::size_t i : which) accounts.push_back(steps[i].account);
  return accounts;
}

TokenCauses causes_of(const std::vector<TaxStep>& steps, const std::vector<std::size_t>& which,
                      bool is_of_host) {
  TokenCauses sum{.is_of_host = is_of_host};
  const double share = 1.0 / static_cast<double>(which.size());
  for (const std::size_t i : which) {
    sum.expert_loads +=
        share * static_cast<double>(steps[i].account.records[static_cast<std::size_t>(Part::expert_loading)]);
    sum.minor_faults += share * static_cast<double>(steps[i].causes.minor_faults);
    sum.major_faults += share * static_cast<double>(steps[i].causes.major_faults);
    sum.preemptions += share * static_cast<double>(steps[i].causes.preemptions);
  }
  return sum;
}

}  // namespace

void TaxRuns::add(const StepRecorder& recorder, int expected_rounds) {
  TaxStep prompts;
  TaxStep all;
  std::vector<Account> by_round;
  std::optional<Phase> before;
  for (const RecordedStep& recorded : recorder.steps()) {
    TaxStep step{.account = account(recorded.begin_ns, recorded.end_ns, recorder.intervals_of(recorded)),
                 .causes = recorded.causes};
    // A round begins where a prompt follows an answer.
    if (!before || (recorded.phase == Phase::prefill && *before == Phase::decode)) by_round.emplace_back();
    before = recorded.phase;
    by_round.back() += step.account;
    all.account += step.account;
    if (recorded.phase == Phase::decode) {
      decode.push_back(step);
      continue;
    }
    prompts.account += step.account;
    prompts.causes += step.causes;
  }
  decode_ends.push_back(decode.size());
  prefill.push_back(prompts);
  whole.push_back(all);
  // Answers of one token have no step of their own, and then rounds cannot be told apart.
  if (std::ssize(by_round) == expected_rounds) rounds.push_back(std::move(by_round));
}

namespace {

struct StepsByRun {
  const std::vector<TaxStep>& steps;
  std::vector<std::size_t> ends;

  std::vector<Account> accounts() const {
    std::vector<Account> all;
    for (const TaxStep& step : steps) all.push_back(step.account);
    return all;
  }
};

void add_spread(PhaseTax& tax, const StepsByRun& plain, const StepsByRun& recorded,
                const RecordingCost& cost) {
  tax.token_spread = spread_over_runs(length_by_run(plain.accounts(), plain.ends), tax.typical.token_ns);
  tax.tax_spread =
      spread_over_runs(tax_by_run(recorded.accounts(), recorded.ends, cost), tax.typical.tax_ns());
}

// One account per run.
std::vector<std::size_t> ends_of_single(const std::vector<TaxStep>& steps) {
  std::vector<std::size_t> ends(steps.size());
  std::iota(ends.begin(), ends.end(), std::size_t{1});
  return ends;
}

}  // namespace

void add_decode_spread(PhaseTax& tax, const TaxRuns& plain, const TaxRuns& recorded,
                       const RecordingCost& cost) {
  add_spread(tax, {plain.decode, plain.decode_ends}, {recorded.decode, recorded.decode_ends}, cost);
}

void add_prefill_spread(PhaseTax& tax, const TaxRuns& plain, const TaxRuns& recorded,
                        const RecordingCost& cost) {
  add_spread(tax, {plain.prefill, ends_of_single(plain.prefill)},
             {recorded.prefill, ends_of_single(recorded.prefill)}, cost);
}

PhaseTax phase_tax(const std::vector<TaxStep>& plain, const std::vector<TaxStep>& recorded,
                   const RecordingCost& cost, bool is_of_host) {
  PhaseTax tax;
  const std::vector<std::int64_t> lengths = lengths_of(recorded);
  const std::vector<std::size_t> middle = middle_half(lengths);
  tax.typical = break_down(chosen(recorded, middle), middle_mean(lengths_of(plain)), cost);
  if (!middle.empty()) tax.typical_causes = causes_of(recorded, middle, is_of_host);
  const std::vector<std::size_t> slowest = slowest_hundredth(lengths);
  if (slowest.empty()) return tax;
  // Another run has other slow tokens: the plain time of these is not known but for the cost of their
  // records.
  const std::vector<Account> accounts = chosen(recorded, slowest);
  const Breakdown with_cost = break_down(accounts, 1.0, cost);
  tax.slowest = break_down(accounts, with_cost.recorded_ns - with_cost.recording_ns, cost);
  tax.slowest_causes = causes_of(recorded, slowest, is_of_host);
  return tax;
}

std::vector<RoundTax> round_taxes(const TaxRuns& plain, const TaxRuns& recorded, const RecordingCost& cost,
                                  int rounds) {
  std::vector<RoundTax> taxes;
  if (rounds < 2 || plain.rounds.empty() || recorded.rounds.empty()) return taxes;
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round) {
    const auto steps_of = [&](const TaxRuns& runs) {
      std::vector<TaxStep> steps;
      for (const std::vector<Account>& run : runs.rounds)
        steps.push_back({.account = run[round], .causes = {}});
      return steps;
    };
    taxes.push_back({phase_tax(steps_of(plain), steps_of(recorded), cost).typical});
  }
  return taxes;
}

void divide(Breakdown& breakdown, double count) {
  for (double* value :
       {&breakdown.token_ns, &breakdown.recorded_ns, &breakdown.unexplained_ns, &breakdown.recording_ns})
    *value /= count;
  for (double& value : breakdown.exposed_ns) value /= count;
  for (double& value : breakdown.hidden_ns) value /= count;
  for (double& value : breakdown.row_ns) value /= count;
}

void divide(PhaseTax& tax, double count) {
  divide(tax.typical, count);
  if (tax.slowest) divide(*tax.slowest, count);
  for (std::optional<RunSpread>* spread : {&tax.token_spread, &tax.tax_spread})
    if (*spread) (*spread)->ns = {(*spread)->ns.low / count, (*spread)->ns.high / count};
}

RecordingCost cost_in_place(const RecordingCost& empty, const std::vector<TaxStep>& recorded,
                            const std::vector<TaxStep>& dear) {
  if (recorded.empty() || dear.empty()) return empty;
  const double added_ns = middle_mean(lengths_of(dear)) - middle_mean(lengths_of(recorded));
  const auto records = static_cast<double>(recorded.front().account.record_count());
  const double empty_ns = empty.inside_ns + empty.outside_ns;
  if (records <= 0.0 || empty_ns <= 0.0 || added_ns <= records * empty_ns) return empty;
  const double factor = added_ns / records / empty_ns;
  return {.inside_ns = factor * empty.inside_ns, .outside_ns = factor * empty.outside_ns};
}

}  // namespace moetune
