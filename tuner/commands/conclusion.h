// What a run comes to: front, verdict, profile and the files that hold them, all from the run directory.
// `tune` ends with it and `report` makes it again. Start at conclude().
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "engine/facts/workload.h"
#include "tuner/choose.h"
#include "tuner/report/run_report.h"

namespace moetune {

struct Conclusion {
  RunReport report;
  std::optional<nlohmann::json> profile;  // empty: nothing is recommended
  ExitCode code = ExitCode::done;         // no_feasible_configuration when no trial was ok
  std::string left_as_is;  // the gate by which the run's files stay; empty: they are written anew

  std::string text() const;  // the last lines of tune: verdict, files, and what to launch
  nlohmann::json document() const;
};

// What choose() and finalists() go by in this run. It refers to the report.
ChoiceInput choice_input(const RunReport& report);

// Whose time is worth recording, the most important first: what is recommended, the default, the other
// finalists, then the front by the first objective; a few.
std::vector<std::int64_t> worth_recording(const ChoiceInput& input);

// Writes front.json, front.csv, report.md, report.html and profile.json into the run. Throws InputError (not
// a run) or std::runtime_error (disk).
Conclusion conclude(const std::string& run_path, const std::string& gate);

// The same for somebody who looks at a run. gate: empty: that of the run's profile, or else what the run
// asked for. Under another gate than that nothing is written: a look is no decision.
Conclusion look_at(const std::string& run_path, const std::string& gate);

// "tpot_p99=20ms". Throws InputError with the metrics there are.
Slo parse_slo(const std::string& text);

}  // namespace moetune
