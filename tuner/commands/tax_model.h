// A model under one set of options and one workload whose tax is measured, its dense twin, and sweeps over
// workloads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/tax_text.h"
#include "tuner/targets/tax_run.h"

namespace moetune {

struct TaxOfModel {
  TaxResult result;
  double load_seconds = 0.0;  // before the first run
};

struct TaxModel {
  std::shared_ptr<const Checkpoint> checkpoint;
  EngineOptions options;
  Workload workload;

  // Why it does not fit; empty: it does.
  std::optional<std::string> objection(std::int64_t device_bytes) const;
  // what: for the log. Throws as measure_tax() does.
  TaxOfModel tax(const CommonOptions& common, double seconds, const std::string& what) const;
};

// As many parameters at work per token, all of them dense. What a dense model has no use for stays at its
// default.
TaxModel dense_twin_of(const TaxModel& model);

struct SweepCost {
  std::size_t points = 0;  // that fit
  double seconds = 0.0;    // about
};

// Of both sweeps, from what the model's own workload took; budget_seconds: of each.
SweepCost sweep_cost(const TaxModel& model, const TaxOfModel& measured, double budget_seconds,
                     std::int64_t device_bytes);

// Against sequences side by side: powers of two up to the sequences of interest.
std::vector<SweepPoint> sweep_sequences(const TaxModel& model, const CommonOptions& common, double seconds,
                                        std::int64_t device_bytes);
// Against prompt length: up to four times the workload's, as far as the context goes.
std::vector<SweepPoint> sweep_prompts(const TaxModel& model, const CommonOptions& common, double seconds,
                                      std::int64_t device_bytes);

}  // namespace moetune
