#include "tuner/report/run_report.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/accuracy_gate.h"
#include "tuner/choose.h"
#include "tuner/json_fields.h"
#include "tuner/other_work_file.h"
#include "tuner/pareto.h"
#include "tuner/report/front_table.h"
#include "tuner/report/html.h"
#include "tuner/report/markdown.h"
#include "tuner/trial_log.h"

namespace moetune {

std::string RunReport::role_of(std::int64_t number) const {
  std::string role;
  const auto add = [&](const char* word) { role.append(role.empty() ? "" : ", ").append(word); };
  if (verdict.recommended == number) add("recommended");
  if (verdict.runner_up == number) add("runner-up");
  if (number == 0) add("default");
  if (std::find(front.begin(), front.end(), number) != front.end()) add("front");
  if (is_synthetic(trial(number).metrics) &&
      !keeps_accuracy(trial(number).configuration, trial(0).configuration))
    add("speed only, accuracy unknown");
  return role;
}

Trial RunReport::measured_last(std::int64_t number) const {
  Trial last = trial(number);
  const Finalist* finalist = verdict.final_round ? verdict.final_round->find(number) : nullptr;
  if (finalist != nullptr && finalist->failure.empty())
    last.metrics = with_final_times(last.metrics, *finalist);
  return last;
}

RunReport read_run(const std::string& run_path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(run_path))
    throw InputError(run_path, "is not a folder", "a run directory, as moetune tune writes it");
  RunReport report;
  report.run_path = run_path;
  const auto file = [&](const char* name) { return run_path + "/" + name; };
  report.request = run_request_from_json(read_json_file(file("request.json")), file("request.json"));
  report.hardware = read_json_file(file("hardware.json"));
  gate_named(report.request.gate);  // an unknown gate is refused here, by its name

  report.objectives = objectives_named(fmt::format("{}", fmt::join(report.request.objectives, ",")));

  if (fs::exists(file("trials.jsonl"))) {
    TrialLogContents log = read_trial_log(file("trials.jsonl"));
    report.trials = std::move(log.trials);
    report.measured_again = std::move(log.measured_again);
    report.recordings = std::move(log.recordings);
    report.torn = std::move(log.torn);
  }
  report.other_work = read_other_work(run_path);
  for (const Trial& trial : pareto_front(report.trials, report.objectives).trials)
    report.front.push_back(trial.number);
  for (const Trial& recording : report.recordings)
    report.trials.at(static_cast<std::size_t>(recording.number))
        .metrics.insert(recording.metrics.begin(), recording.metrics.end());
  return report;
}

void write_report_files(const RunReport& report) {
  const auto write = [&](const char* name, const std::string& contents) {
    write_file_atomically(report.run_path + "/" + name, contents);
  };
  write("front.json",
        to_front_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  write("front.csv", to_csv(report));
  write("report.md", to_markdown(report));
  write("report.html", to_html(report));
}

}  // namespace moetune
