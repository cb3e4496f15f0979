// moetune measure --op: single ops and whole layers, timed against what the device's memory and tensor cores
// reach.
#pragma once

#include <string>
#include <vector>

#include "engine/facts/error.h"
#include "tuner/commands/common_options.h"

namespace moetune {

struct MeasureOpOptions {
  std::string ops;  // empty: not asked for
  std::string tokens = "1";
  std::string type;          // of routed experts; empty: as the model ships
  std::int64_t context = 0;  // 0: 512, or as many as the tokens of a prompt
  bool is_prompt = false;
  int runs = 25;
  double budget_seconds = 60.0;  // for all ops, with weights and KV cache; see most_timing_seconds()
};

void add_measure_op_options(CLI::App& command, MeasureOpOptions& options);

// Options that mean nothing to single ops: given beside --op they are refused, not dropped. They must have
// been added.
void refuse_beside_op(CLI::App& command, const std::vector<std::string>& flags);

// settings: of --set.
ExitCode measure_ops(const CommonOptions& common, const MeasureOpOptions& options,
                     const std::vector<std::string>& settings);

}  // namespace moetune
