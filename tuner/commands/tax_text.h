// A tax in words, bars and JSON. Start at breakdown_table().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/sync_tax/imported_trace.h"
#include "tuner/targets/tax_run.h"

namespace moetune {

// Milliseconds; parts add up to "token_ms" with "unexplained". Where it was refused only why, and the two
// times.
nlohmann::json to_json_value(const Breakdown& breakdown);
nlohmann::json to_json_value(const PhaseTax& phase);  // typical, and slowest where there is one

// What the steps of one thing are called and how long they take: "decode, per token".
struct BreakdownColumn {
  std::string title;
  const Breakdown* breakdown;
};

// Parts of the first column with their bars, then its hidden time, then the same parts of the others; the
// tax, the token's time.
std::string breakdown_table(const std::vector<BreakdownColumn>& columns);
// Router, gate+up, down+combine, shared, dense, attention, head: exposed time.
std::string rows_table(const std::vector<BreakdownColumn>& columns);
// What grew where tokens were slow, beside what happened in them.
std::string slowest_text(const PhaseTax& phase);
// One line per round: its time, its tax and the tax so far.
std::string rounds_table(const std::vector<RoundTax>& rounds);
// Time and tax of the whole, beside what trials call them.
std::string task_text(const Breakdown& task);

// Of a server's trace: per device its parts; tokens: how many steps the trace holds, to divide by (0: not
// told).
std::string imported_text(const std::string& file, const ImportedTrace& trace, std::int64_t tokens);
nlohmann::json imported_json(const std::string& file, const ImportedTrace& trace, std::int64_t tokens);

struct SweepPoint {
  int value = 0;          // sequences, or prompt tokens
  std::string objection;  // why it could not be measured; empty: it was
  PhaseTax decode;
  PhaseTax prefill;
};
// Steps with their tax, then prompts with theirs, with the intervals over the runs.
std::string sweep_table(const std::string& heading, const std::vector<SweepPoint>& points);
nlohmann::json to_json_value(const std::vector<SweepPoint>& points, const char* name);

}  // namespace moetune
