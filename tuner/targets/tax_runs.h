// Accounts of the runs of one kind, plain or recorded, and the tax that two kinds together say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/sync_tax/account.h"
#include "engine/sync_tax/step_recorder.h"
#include "tuner/targets/tax_run.h"

namespace moetune {

struct TaxStep {
  Account account;  // of a plain step only its length
  StepCauses causes;
};

struct TaxRuns {
  std::vector<TaxStep> decode;               // one per step
  std::vector<std::size_t> decode_ends;      // of each run, how many steps there were after it
  std::vector<TaxStep> prefill;              // one per run: all its prompts
  std::vector<std::vector<Account>> rounds;  // by run; prompt and answer of each round
  std::vector<TaxStep> whole;                // one per run: all its steps

  void add(const StepRecorder& recorder, int expected_rounds);
};

// is_of_host: false: a GPU decoded without the host.
PhaseTax phase_tax(const std::vector<TaxStep>& plain, const std::vector<TaxStep>& recorded,
                   const RecordingCost& cost, bool is_of_host = true);

// How far the runs lie apart in both, for `tax` as it is per step, or per run before it is divided.
void add_decode_spread(PhaseTax& tax, const TaxRuns& plain, const TaxRuns& recorded,
                       const RecordingCost& cost);
void add_prefill_spread(PhaseTax& tax, const TaxRuns& plain, const TaxRuns& recorded,
                        const RecordingCost& cost);

// Empty with one round, or where rounds cannot be told apart.
std::vector<RoundTax> round_taxes(const TaxRuns& plain, const TaxRuns& recorded, const RecordingCost& cost,
                                  int rounds);

// What was recorded of so many prompts or tasks at once, for one of them.
void divide(Breakdown& breakdown, double count);
void divide(PhaseTax& tax, double count);  // with its slowest and its spreads

// empty: of a record among many empty ones in a row. Between ops, where caches hold other things, it costs
// more: what records at twice the cost (dear) add to a step is what the others have added. Less than that of
// empty ones is noise.
RecordingCost cost_in_place(const RecordingCost& empty, const std::vector<TaxStep>& recorded,
                            const std::vector<TaxStep>& dear);

}  // namespace moetune
