#include "tuner/report/junit.h"

#include <vector>

#include <fmt/format.h>

#include "tuner/metric_facts.h"
#include "tuner/report/escape.h"

namespace moetune {
namespace {

struct Case {
  std::string name;
  std::string failure;  // it is worse than it was
  std::string error;    // it cannot be judged
  std::string output;   // measured values
};

std::string values_of(const NightlyPoint& point) {
  std::string text = point.configuration.key() + "\n";
  for (const auto& [metric, now] : point.now) {
    const auto then = point.then.find(metric);
    text +=
        fmt::format("{}: now {}{}\n", metric, value_text(metric, now.value),
                    then == point.then.end() ? "" : ", formerly " + value_text(metric, then->second.value));
  }
  return text;
}

std::vector<Case> cases_of(const NightlyRecord& record) {
  const NightlyResult& result = record.result;
  std::vector<Case> cases;
  Case verdict{.name = "verdict", .failure = "", .error = "", .output = result.reason};
  if (result.verdict == NightlyVerdict::regression)
    verdict.failure = result.reason;
  else if (result.verdict != NightlyVerdict::ok)
    verdict.error = fmt::format("{}: {}", name_of(result.verdict), result.reason);
  cases.push_back(verdict);

  const Staleness& staleness = record.input.staleness;
  Case fingerprint{
      .name = "fingerprint", .failure = "", .error = "", .output = staleness.words(Asker::check)};
  if (staleness.rung > Rung::other_software) fingerprint.error = staleness.words(Asker::check);
  cases.push_back(fingerprint);

  Case machine{.name = "machine", .failure = "", .error = "", .output = "nothing else ran"};
  for (const std::string& work : record.input.other_work)
    machine.error += (machine.error.empty() ? "other work: " : ", ") + work;
  if (!machine.error.empty()) machine.output = machine.error;
  cases.push_back(machine);

  for (const NightlyPoint& point : record.input.points) {
    Case measured{.name = fmt::format("{} {}", name_of(point.role), record.input.objective.metric),
                  .failure = point.failure,
                  .error = "",
                  .output = values_of(point)};
    const bool is_slower = point.slowdown && judge_slowdown(*point.slowdown, record.input.threshold) ==
                                                 SlowdownVerdict::regression;
    if (is_slower && record.input.other_work.empty()) measured.failure = slowdown_text(*point.slowdown);
    // Slower canaries say where a slowdown comes from; only the baseline has a promise to keep.
    if (point.role != NightlyRole::baseline && measured.failure != point.failure) {
      measured.output += measured.failure + "\n";
      measured.failure.clear();
    }
    cases.push_back(measured);
  }
  return cases;
}

}  // namespace

std::string xml_text(std::string_view text) {
  // A plain line end in an attribute would become a blank. HTML's entities for the rest are XML's too.
  std::string safe;
  while (true) {
    const std::size_t end = text.find('\n');
    safe += html_text(text.substr(0, end));
    if (end == std::string_view::npos) return safe;
    safe += "&#10;";
    text.remove_prefix(end + 1);
  }
}

std::string to_junit(const NightlyRecord& record) {
  const std::vector<Case> cases = cases_of(record);
  int failures = 0;
  int errors = 0;
  std::string body;
  for (const Case& each : cases) {
    body += fmt::format("    <testcase classname=\"moetune.ci.{}.{}\" name=\"{}\" time=\"{:.3f}\">\n",
                        xml_text(record.model), xml_text(record.workload), xml_text(each.name),
                        &each == &cases.front() ? record.seconds : 0.0);
    if (!each.failure.empty()) {
      ++failures;
      body += fmt::format("      <failure type=\"regression\" message=\"{}\"/>\n", xml_text(each.failure));
    } else if (!each.error.empty()) {
      ++errors;
      body += fmt::format("      <error type=\"{}\" message=\"{}\"/>\n", name_of(record.result.verdict),
                          xml_text(each.error));
    }
    body += fmt::format("      <system-out>{}</system-out>\n    </testcase>\n", xml_text(each.output));
  }
  const std::string counts = fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3f}\"",
                                         cases.size(), failures, errors, record.seconds);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n  <testsuite name=\"moetune ci\" {0} "
      "timestamp=\"{1}\">\n{2}"
      "  </testsuite>\n</testsuites>\n",
      counts, xml_text(record.started), body);
}

}  // namespace moetune
