#include "tuner/report/html.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tuner/report/against_default.h"
#include "tuner/report/escape.h"
#include "tuner/report/final_section.h"
#include "tuner/report/html_parts.h"
#include "tuner/report/metric_column.h"
#include "tuner/report/page_data.h"
#include "tuner/report/run_facts.h"
#include "tuner/serving/confirmation.h"

namespace moetune {
namespace {

std::string text_of(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

std::string header(const RunReport& report) {
  const RunRequest& request = report.request;
  std::string box = text_of(report.hardware, "device");
  if (const std::string cpu = text_of(report.hardware, "cpu_name"); box == "cpu" && !cpu.empty())
    box += ": " + cpu;
  std::string about =
      fmt::format("workload {}, gate {}, {}, {}", request.workload, request.gate,
                  request.slo.empty() ? "no service level" : "service level " + request.slo, box);
  if (!report.trials.empty()) about += ", begun " + report.trials.front().started;
  return "<header><h1>" + html_text(request.model) + "</h1>" + html_paragraph(about, "about") +
         "<button type=\"button\" id=\"theme\" hidden></button></header>\n" +
         (text_of(request.conditions, "model_note").empty()
              ? ""
              : html_paragraph(request.model + ": " + text_of(request.conditions, "model_note") + ".",
                               "caution"));
}

std::string launch_block(const Configuration& configuration) {
  std::vector<HtmlRow> rows;
  for (const auto& [name, value] : configuration.values) rows.push_back({html_code(name), html_code(value)});
  return html_table("The configuration to launch with", {"knob", "value"}, rows);
}

std::string beside_default(const RunReport& report, const Trial& chosen) {
  if (chosen.number == 0 || report.trial(0).outcome != Outcome::ok) return "";
  std::vector<HtmlRow> rows;
  for (const MetricColumn& column : report_columns(report))
    rows.push_back({html_text(column.heading()), html_text(column.cell(report.measured_last(chosen.number))),
                    html_text(column.cell(report.measured_last(0)))});
  return html_table("Recommended and default side by side; intervals are 95 %",
                    {"", "recommended", "default"}, rows);
}

std::string what_to_launch(const RunReport& report) {
  const Verdict& verdict = report.verdict;
  std::string html = html_paragraph(verdict.caution, "caution");
  if (!verdict.recommended) {
    html += "<p class=\"verdict\"><strong>Nothing can be recommended.</strong> " + html_text(verdict.reason) +
            "</p>\n";
    return html_section("launch", "What to launch", html + html_paragraph(against_default_words(report)));
  }
  const Trial& chosen = report.trial(*verdict.recommended);
  for (const std::string& line : confirmation_lines(report.confirmations))
    html += html_paragraph(line, line.starts_with("REFUTED") ? "caution" : "note");
  // On a telephone what to launch comes right after the verdict, and the rest of the reasons below it.
  html += "<div class=\"first launch\"><div class=\"why\">" + html_paragraph(verdict.reason, "verdict") +
          "</div><div class=\"what\">" + launch_block(chosen.configuration) +
          "<div id=\"launch-flags\"></div></div><div class=\"more\">" +
          html_paragraph(against_default_words(report));
  if (verdict.final_round) html += html_paragraph(final_words(report));
  if (verdict.runner_up)
    html += "<p>Runner-up: trial " + std::to_string(*verdict.runner_up) + " (" +
            html_code(report.trial(*verdict.runner_up).configuration.key()) +
            "). Why not: " + html_text(verdict.why_not_runner_up) + "</p>\n";
  html += "<div id=\"launch-command\"></div></div></div>\n";
  return html_section("launch",
                      fmt::format("What to launch: trial {}{}", chosen.number,
                                  chosen.number == 0 ? ", the default configuration" : ""),
                      html + beside_default(report, chosen));
}

std::string the_front() {
  std::string html =
      html_chart("front-chart",
                 "Every measured configuration. Bars are 95 % intervals; the line joins what nothing "
                 "else beats in the two metrics shown. Arrow keys move between points, Enter picks one.");
  html += "<div id=\"picked\" aria-live=\"polite\"></div>\n";
  return html_section("front", "The front", html);
}

// What it changes of the default: a space of twenty knobs would fill the page with what is the same in every
// row.
std::string changes_of(const Configuration& configuration, const Configuration& usual) {
  Configuration changed;
  for (const auto& [name, value] : configuration.values) {
    const auto known = usual.values.find(name);
    if (known == usual.values.end() || known->second != value) changed.values[name] = value;
  }
  return changed.values.empty() ? html_text("nothing") : html_code(changed.key());
}

std::string front_in_numbers(const RunReport& report) {
  std::string html;
  const std::vector<MetricColumn> columns = report_columns(report);
  std::vector<std::string> headings{"trial", "differs from the default in"};
  for (const MetricColumn& column : columns) headings.push_back(column.heading());
  headings.emplace_back("role");
  std::vector<HtmlRow> rows;
  for (const std::int64_t number : report.front) {
    const Trial& trial = report.trial(number);
    HtmlRow row{std::to_string(number), changes_of(trial.configuration, report.trial(0).configuration)};
    for (const MetricColumn& column : columns) row.push_back(html_text(column.cell(trial)));
    row.push_back(html_text(report.role_of(number)));
    rows.push_back(std::move(row));
  }
  if (!rows.empty()) html += "<p>The default: " + html_code(report.trial(0).configuration.key()) + "</p>\n";
  html += rows.empty()
              ? html_paragraph("The front is empty: no trial has a value for every objective.")
              : html_table("The front: no other trial is as good in every objective and better in one",
                           headings, rows);
  return html_section("front-numbers", "The front in numbers", html);
}

std::string final_round(const RunReport& report) {
  if (!report.verdict.final_round) return "";
  const std::int64_t passes = report.verdict.final_round->passes;
  const MetricColumn column(report.objectives.front().metric, report.trials);
  std::vector<HtmlRow> rows;
  for (const Finalist& finalist : report.verdict.final_round->finalists) {
    const auto& ratio = finalist.ratio;
    rows.push_back({std::to_string(finalist.trial), html_text(report.role_of(finalist.trial)),
                    finalist.failure.empty() ? html_text(column.cell(report.measured_last(finalist.trial)))
                                             : html_text("failed: " + finalist.failure),
                    ratio && ratio->low && ratio->high
                        ? fmt::format("{:.4f} ({:.4f} to {:.4f})", ratio->value, *ratio->low, *ratio->high)
                    : ratio ? fmt::format("{:.4f}", ratio->value)
                            : "",
                    html_text(column.cell(report.trial(finalist.trial)))});
  }
  return html_section(
      "final-round", "The final round",
      html_paragraph(
          rows.size() == 1
              ? fmt::format(
                    "{} passes, each a fresh process that measured the only one with a chance. 'moetune "
                    "ci' compares a later night with them.",
                    passes)
              : fmt::format("{} passes, each a fresh process that measured every finalist once. Ratios are "
                            "taken within a pass, where the machine's mood is the same{}.",
                            passes,
                            passes < 6 ? "; so few passes have no 95 % interval"
                                       : "; their intervals hold for all finalists at once")) +
          html_table("Finalists measured again in turns",
                     {"trial", "role", column.heading(), "over the first one's", "in the search"}, rows) +
          html_paragraph(control_words(*report.verdict.final_round)));
}

std::string failures(const RunReport& report) {
  const Knobs knobs = knobs_of(report.trials);
  std::vector<HtmlRow> rows;
  for (const std::vector<Trial>* trials : {&report.trials, &report.measured_again, &report.recordings})
    for (const Trial& trial : *trials)
      if (trial.outcome != Outcome::ok)
        rows.push_back({std::to_string(trial.number) + (trial.turn           ? ", measured again"
                                                        : trial.is_recording ? ", recorded"
                                                                             : ""),
                        std::string(name_of(trial.outcome)),
                        html_code(varied_text(trial.configuration, knobs)), html_text(trial.reason)});
  return html_section("failures", fmt::format("Failures: {}", rows.size()),
                      rows.empty() ? html_paragraph("None.")
                                   : html_table("Every trial that failed, and why",
                                                {"trial", "outcome", "configuration", "reason"}, rows));
}

std::string facts_table(std::string_view caption, const std::vector<NamedText>& facts) {
  std::vector<HtmlRow> rows;
  for (const NamedText& fact : facts) rows.push_back({html_text(fact.name), html_text(fact.text)});
  return html_table(caption, {"what", "value"}, rows);
}

std::string how_measured(const RunReport& report) {
  std::vector<HtmlRow> rows;
  for (const MetricOrigins& metric : metric_origins(report.trials))
    rows.push_back({html_code(metric.name), html_text(metric.meaning), html_text(metric.unit),
                    html_text(metric.origins), html_text(metric.samples),
                    metric.has_interval ? "95 %" : "none", html_text(metric.stopped)});
  return html_section("origins", "How the numbers were made",
                      rows.empty() ? html_paragraph("There are none.")
                                   : html_paragraph(how_numbers_are_made) +
                                         html_table("Origin of every metric",
                                                    {"metric", "meaning", "unit", "origin", "n", "interval",
                                                     "measuring stopped because"},
                                                    rows));
}

std::string again(const RunReport& report) {
  std::string html = facts_table("The study", study_facts(report));
  if (!report.torn.empty())
    html += html_paragraph("The last line of the log is torn and was left out: " + report.torn, "caution");
  html += html_paragraph("The first command started this run, the second one goes on where it stopped:");
  html += "<pre>" + html_text(shell_command(report.request.command)) + "\n" +
          html_text(shell_command(resume_command(report))) + "</pre>\n";
  return html_section("again", "How to do it again", html);
}

}  // namespace

std::string to_html(const RunReport& report) {
  const std::string html =
      header(report) + "<main>\n" + what_to_launch(report) + the_front() + final_round(report) +
      html_section(
          "tax", "Where a token's time goes",
          html_chart("tax-chart",
                     "Milliseconds per token and what they went to, per configuration. They add up to "
                     "tax_token_ms, the token's time in the recorded runs, not to tpot_ms, which is of other "
                     "runs.")) +
      html_section("cache", "Expert cache: hit rate and step time",
                   html_chart("cache-chart",
                              "Against the share of experts kept in memory; bars are 95 % intervals.")) +
      html_section(
          "knobs", "What each knob does",
          html_chart(
              "knob-chart",
              "Each dot is a trial. The line is their median. Where pairs of trials differ in a knob alone, "
              "the figure under a value is their median change against the default's value.")) +
      html_section(
          "history", "The search over time",
          html_chart(
              "history-chart",
              "Trials in the order they were made, and how much their front dominates: 1 would be one "
              "configuration with the best value of every objective seen; 0 is the reference point.")) +
      html_section("predicted", "Predicted against measured",
                   html_chart("predicted-chart",
                              "Both values of the same metric and configuration; on the line they agree.")) +
      front_in_numbers(report) + failures(report) + how_measured(report) +
      html_section("machine", "The machine",
                   facts_table("What it was measured on", flattened(report.hardware))) +
      again(report) + "</main>\n";
  return html_page(report.request.model + ", " + report.request.workload, html, "report", page_data(report));
}

}  // namespace moetune
