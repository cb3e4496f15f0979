// moetune report: a run directory rendered again: front, verdict, profile, report.html, report.md, front.csv.
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/conclusion.h"
#include "tuner/commands/partial_file.h"
#include "tuner/commands/run_paths.h"
#include "tuner/launch_profile.h"
#include "tuner/metric_history.h"
#include "tuner/report/front_plot.h"
#include "tuner/report/history_plot.h"
#include "tuner/report/prometheus.h"
#include "tuner/terminal.h"

namespace moetune {
namespace {

struct ReportOptions {
  Console console;
  std::string run;
  std::string gate;
  std::string history;  // folder; empty: a run is rendered
  bool is_markdown = false;
  std::string prometheus;
};

ExitCode show_history(const ReportOptions& options) {
  if (!options.run.empty()) throw InputError("--history", "beside a run directory", "one of the two");
  const History history = read_history(options.history);
  options.console.result(options.is_markdown ? history_markdown(history) : draw_history(history));
  options.console.document(to_json_value(history));
  return ExitCode::done;
}

ExitCode run_report(const ReportOptions& options) {
  if (!options.history.empty()) return show_history(options);
  if (options.is_markdown)
    throw InputError("--markdown", "without --history", "both; report.md is the Markdown of a run");
  std::optional<PartialFile> prometheus;
  if (!options.prometheus.empty()) prometheus.emplace("--prometheus", options.prometheus);
  const Conclusion conclusion = look_at(run_named(options.run), options.gate);
  if (!conclusion.report.torn.empty()) options.console.warn(conclusion.report.torn);
  options.console.result(draw_front(conclusion.report, terminal_of(1)));
  options.console.result(conclusion.text());
  options.console.document(conclusion.document());
  if (prometheus) {
    if (!conclusion.profile)
      throw InputError("--prometheus", "nothing is recommended, so there is no profile",
                       "a run that ended with a recommendation");
    prometheus->finish(profile_metrics(launch_profile_from_json(*conclusion.profile, "profile.json")));
  }
  return conclusion.code;
}

}  // namespace

Command add_report_command(CLI::App& program) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App& command =
      add_subcommand(program, "report", "Render a run directory again (HTML, Markdown, CSV, JSON)",
                     "Needs no engine and no model: everything comes from the files of the run.\n\n"
                     "  moetune report runs/latest --gate lossless\n"
                     "  moetune report --history runs");
  add_text_option(command, "RUN", options->run, "DIR", "Run directory; default the newest run");
  add_text_option(command, "--gate", options->gate, "lossless|int8|int4|none",
                  "Look what another gate would choose; the files of the run stay as they are");
  add_text_option(command, "--history", options->history, "DIR",
                  "Draw each metric over time instead: the profiles and checks below DIR");
  add_flag(command, "--markdown", options->is_markdown, "The history as Markdown");
  add_text_option(command, "--prometheus", options->prometheus, "FILE",
                  "Also write the profile's metrics as a textfile for Prometheus' node exporter");
  add_output_options(command, options->console);
  return {&command, [options] { return run_report(*options); }};
}

}  // namespace moetune
