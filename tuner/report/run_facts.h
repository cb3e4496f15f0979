// What report.md and report.html both say about a run beside its front: the study, how each number was made,
// how to go on. Words and rows only; each writer escapes and lays them out itself.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tuner/report/run_report.h"

namespace moetune {

struct NamedText {
  std::string name;
  std::string text;
};

// Scalars of an object with their path: {"workload.rounds", "1"}.
std::vector<NamedText> flattened(const nlohmann::json& object);

// Model, workload, space, searcher, gate, trials, time, build, conditions.
std::vector<NamedText> study_facts(const RunReport& report);

// argv that goes on with this run.
std::vector<std::string> resume_command(const RunReport& report);

// How the values of one metric came about, over all trials.
struct MetricOrigins {
  std::string name;
  std::string meaning;
  std::string unit;
  std::string origins;  // "measured", "measured; predicted"
  std::string samples;  // "40", "12 to 4096"
  bool has_interval = false;
  std::string stopped;  // why measuring ended, in words
};
std::vector<MetricOrigins> metric_origins(std::span<const Trial> trials);

inline constexpr std::string_view how_numbers_are_made =
    "Times are medians with distribution-free intervals, accuracy is a mean over positions against the "
    "reference (the checkpoint's own number types and top-k). n counts samples behind a number; trials "
    "differ "
    "in it because measuring stops when the interval is narrow enough.";

}  // namespace moetune
