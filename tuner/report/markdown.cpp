#include "tuner/report/markdown.h"

#include <algorithm>

#include <fmt/format.h>

#include "tuner/counted.h"
#include "tuner/report/against_default.h"
#include "tuner/report/escape.h"
#include "tuner/report/final_section.h"
#include "tuner/report/knob_effects.h"
#include "tuner/report/metric_column.h"
#include "tuner/report/run_facts.h"
#include "tuner/serving/confirmation.h"

namespace moetune {
namespace {

using Row = std::vector<std::string>;

// Cells must be Markdown already.
std::string table(const Row& heading, const std::vector<Row>& rows) {
  const auto line = [](const Row& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += " " + cell + " |";
    return text + "\n";
  };
  std::string text = line(heading) + line(Row(heading.size(), "---"));
  for (const Row& row : rows) text += line(row);
  return text + "\n";
}

std::string configuration_block(const Configuration& configuration) {
  std::string text = "```text\n";
  for (const auto& [name, value] : configuration.values) text += fenced_line(name + "=" + value) + "\n";
  return text + "```\n\n";
}

std::string what_to_launch(const RunReport& report) {
  std::string text = "## What to launch\n\n";
  if (!report.verdict.caution.empty()) text += "**" + markdown_text(report.verdict.caution) + "**\n\n";
  if (!report.verdict.recommended) {
    text += "**Nothing can be recommended.** " + markdown_text(report.verdict.reason) + "\n\n";
    return text + markdown_text(against_default_words(report)) + "\n\n";
  }
  const Trial& chosen = report.trial(*report.verdict.recommended);
  text += fmt::format("**Trial {}{}:**\n\n", chosen.number,
                      chosen.number == 0 ? ", the default configuration" : "");
  text += configuration_block(chosen.configuration);
  text +=
      markdown_text(report.verdict.reason) + "\n\n" + markdown_text(against_default_words(report)) + "\n\n";
  if (report.verdict.final_round) text += markdown_text(final_words(report)) + "\n\n";
  for (const std::string& line : confirmation_lines(report.confirmations))
    text += "**" + markdown_text(line) + "**\n\n";
  if (report.verdict.runner_up)
    text += fmt::format("Runner-up: trial {} ({}). Why not: {}\n\n", *report.verdict.runner_up,
                        markdown_code(report.trial(*report.verdict.runner_up).configuration.key()),
                        markdown_text(report.verdict.why_not_runner_up));

  if (chosen.number != 0 && report.trial(0).outcome == Outcome::ok) {
    std::vector<Row> rows;
    for (const MetricColumn& column : report_columns(report))
      rows.push_back({markdown_text(column.heading()), column.cell(report.measured_last(chosen.number)),
                      column.cell(report.measured_last(0))});
    text += table({"", "recommended", "default"}, rows);
  }
  return text;
}

std::string the_front(const RunReport& report, const Knobs& knobs) {
  std::string text = "## The front\n\n";
  if (report.front.empty()) return text + "It is empty: no trial has a value for every objective.\n\n";
  std::string objectives;
  for (const Objective& objective : report.objectives)
    objectives += fmt::format("{}{} ({})", objectives.empty() ? "" : ", ", objective.metric,
                              objective.maximize ? "larger is better" : "smaller is better");
  text += fmt::format(
      "{} of {}: no other trial is as good in all of {} and better in one. Intervals are 95 %.{}\n\n",
      report.front.size(), counted(report.trials.size(), "trial"), markdown_text(objectives),
      report.verdict.final_round
          ? " Times are the search's, each measured once; those of the final round stand above."
          : "");
  if (!knobs.fixed.values.empty())
    text += "The same in every trial: " + markdown_code(knobs.fixed.key()) + ".\n\n";

  const std::vector<MetricColumn> columns = report_columns(report);
  Row heading{"trial", "configuration"};
  for (const MetricColumn& column : columns) heading.push_back(markdown_text(column.heading()));
  heading.emplace_back("role");
  std::vector<Row> rows;
  for (const std::int64_t number : report.front) {
    const Trial& trial = report.trial(number);
    Row row{std::to_string(number), markdown_code(varied_text(trial.configuration, knobs))};
    for (const MetricColumn& column : columns) row.push_back(column.cell(trial));
    row.push_back(report.role_of(number));
    rows.push_back(std::move(row));
  }
  return text + table(heading, rows) + "Every digit and every other metric: `front.csv`, `front.json`.\n\n";
}

std::string the_default(const RunReport& report) {
  if (report.trials.empty()) return "";
  const Trial& trial = report.trial(0);
  std::string text =
      "## The default configuration\n\nTrial 0: " + markdown_code(trial.configuration.key()) + "\n\n";
  if (trial.outcome != Outcome::ok)
    return text + fmt::format("It was not measured: {}: {}\n\n", name_of(trial.outcome),
                              markdown_text(trial.reason));
  std::vector<Row> rows;
  for (const MetricColumn& column : report_columns(report))
    rows.push_back({markdown_text(column.heading()), column.cell(trial)});
  return text + table({"metric", "value (95 % interval)"}, rows);
}

std::string failures(const RunReport& report, const Knobs& knobs) {
  std::vector<Row> rows;
  for (const Trial& trial : report.trials)
    if (trial.outcome != Outcome::ok)
      rows.push_back({std::to_string(trial.number), std::string(name_of(trial.outcome)),
                      markdown_code(varied_text(trial.configuration, knobs)), markdown_text(trial.reason)});
  std::string text = "## Trials that failed\n\n";
  if (rows.empty()) return text + "None.\n\n";
  return text + table({"trial", "outcome", "configuration", "reason"}, rows);
}

std::string how_measured(const RunReport& report) {
  std::string text = "## How the numbers were made\n\n";
  std::vector<Row> rows;
  for (const MetricOrigins& metric : metric_origins(report.trials))
    rows.push_back({markdown_text(metric.name), markdown_text(metric.meaning), markdown_text(metric.unit),
                    metric.origins, metric.samples, metric.has_interval ? "95 %" : "none",
                    markdown_text(metric.stopped)});
  if (rows.empty()) return text + "There are none.\n\n";
  return text + std::string(how_numbers_are_made) + "\n\n" +
         table({"metric", "meaning", "unit", "origin", "n", "interval", "measuring stopped because"}, rows);
}

std::string machine(const RunReport& report) {
  std::vector<Row> rows;
  for (const NamedText& fact : flattened(report.hardware))
    rows.push_back({markdown_text(fact.name), markdown_text(fact.text)});
  return "## The machine\n\n" + table({"what", "value"}, rows);
}

// What must be read with every number below: synthetic weights, folding, approximations.
std::string note_of(const RunRequest& request) {
  const auto note = request.conditions.find("model_note");
  return note == request.conditions.end() || !note->is_string()
             ? ""
             : fmt::format("**{}: {}.**\n\n", markdown_text(request.model),
                           markdown_text(note->get<std::string>()));
}

std::string again(const RunReport& report) {
  const RunRequest& request = report.request;
  std::vector<Row> rows;
  for (const NamedText& fact : study_facts(report))
    rows.push_back({markdown_text(fact.name), markdown_text(fact.text)});
  std::string text = "## How to go on, and how to do it again\n\n" + table({"what", "value"}, rows);
  if (!report.torn.empty())
    text += "The last line of the log is torn and was left out: " + markdown_text(report.torn) + "\n\n";
  text +=
      "The run was started with the first command. The second one goes on where it stopped, for longer with "
      "a larger `--budget` or "
      "`--max-trials`. In another directory the first one makes the same trials again, as far as its budget "
      "reaches.\n\n```sh\n";
  text += fenced_line(shell_command(request.command)) + "\n" +
          fenced_line(shell_command(resume_command(report))) + "\n```\n\n";
  return text +
         "This report, `front.csv` and `front.json` are made from `request.json`, `hardware.json` and "
         "`trials.jsonl` alone; `moetune report` "
         "makes them again.\n";
}

}  // namespace

std::string to_markdown(const RunReport& report) {
  const Knobs knobs = knobs_of(report.trials);
  return fmt::format("# {}, {}\n\n", markdown_text(report.request.model),
                     markdown_text(report.request.workload)) +
         note_of(report.request) + what_to_launch(report) + final_section(report) + the_front(report, knobs) +
         knob_effects_section(report) + the_default(report) + failures(report, knobs) + how_measured(report) +
         machine(report) + again(report);
}

}  // namespace moetune
