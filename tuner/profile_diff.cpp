#include "tuner/profile_diff.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "tuner/metric_facts.h"
#include "tuner/report/escape.h"
#include "tuner/staleness.h"

namespace moetune {
namespace {

const Evidence* evidence_in(const ProfilePoint& point, const std::string& metric) {
  for (const Evidence& evidence : point.evidence)
    if (evidence.metric == metric) return &evidence;
  return nullptr;
}

std::string value_cell(const Evidence* evidence) {
  if (evidence == nullptr) return "";
  std::string text = value_text(evidence->metric, evidence->value);
  if (evidence->low && evidence->high)
    text += fmt::format(" ({})", interval_text(evidence->metric, *evidence->low, *evidence->high));
  return markdown_text(text);
}

std::string change_cell(const Evidence* before, const Evidence* after) {
  if (before == nullptr || after == nullptr || before->value == 0.0) return "";
  std::string text = fmt::format("{:+.1f} %", 100.0 * (after->value / before->value - 1.0));
  if (!before->low || !before->high || !after->low || !after->high) return text;
  const bool apart = *after->low > *before->high || *after->high < *before->low;
  return text + (apart ? ", beyond doubt" : ", within the intervals");
}

std::string knobs_section(const LaunchProfile& before, const LaunchProfile& after) {
  std::set<std::string> names;
  for (const LaunchProfile* profile : {&before, &after})
    for (const auto& [name, value] : profile->recommended.configuration) names.insert(name);
  const auto value_in = [](const LaunchProfile& profile, const std::string& name) {
    const auto found = profile.recommended.configuration.find(name);
    return found == profile.recommended.configuration.end() ? std::string() : found->second;
  };
  std::string rows;
  for (const std::string& name : names) {
    const std::string then = value_in(before, name);
    const std::string now = value_in(after, name);
    if (then != now)
      rows += fmt::format("| {} | {} | {} |\n", markdown_code(name), markdown_code(then), markdown_code(now));
  }
  if (rows.empty()) return "The configuration is the same.\n\n";
  return "| knob | before | after |\n| --- | --- | --- |\n" + rows + "\n";
}

std::string metrics_section(const LaunchProfile& before, const LaunchProfile& after) {
  std::set<std::string> names;
  for (const LaunchProfile* profile : {&before, &after})
    for (const Evidence& evidence : profile->recommended.evidence) names.insert(evidence.metric);
  std::string text = "| metric | before | after | change |\n| --- | --- | --- | --- |\n";
  for (const std::string& name : names) {
    const Evidence* then = evidence_in(before.recommended, name);
    const Evidence* now = evidence_in(after.recommended, name);
    text += fmt::format("| {} | {} | {} | {} |\n", markdown_text(name), value_cell(then), value_cell(now),
                        change_cell(then, now));
  }
  return text + "\n";
}

}  // namespace

std::string profile_diff(const LaunchProfile& before, const LaunchProfile& after) {
  const Staleness box = staleness_of(before, {.hardware = after.hardware, .model_hash = after.model_hash});
  return fmt::format("# {}, workload {}: what changed\n\n", markdown_text(after.model),
                     markdown_text(after.workload.name)) +
         knobs_section(before, after) + metrics_section(before, after) +
         (box.differences.empty() ? std::string("Same box.\n")
                                  : "Box: " + markdown_text(box.differences_text()) + ".\n") +
         "\n" + markdown_text(after.reason) + "\n";
}

}  // namespace moetune
