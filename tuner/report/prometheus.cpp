#include "tuner/report/prometheus.h"

#include <array>

#include <fmt/format.h>

namespace moetune {
namespace {

class Family {
 public:
  Family(std::string name, const char* help, std::string labels)
      : name_(std::move(name)), labels_(std::move(labels)) {
    text_ = fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n", name_, help);
  }
  void add(const std::string& own_labels, double value) {
    text_ +=
        fmt::format("{}{{{}{}{}}} {}\n", name_, labels_, own_labels.empty() ? "" : ",", own_labels, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string labels_;
  std::string text_;
};

template <class Add>
void add_bounds(double value, const std::optional<double>& low, const std::optional<double>& high,
                const Add& add) {
  add("value", value);
  if (low) add("low", *low);
  if (high) add("high", *high);
}

std::optional<double> low_of(const Slowdown& slowdown) {
  return slowdown.interval ? std::optional(slowdown.interval->low) : std::nullopt;
}
std::optional<double> high_of(const Slowdown& slowdown) {
  return slowdown.interval ? std::optional(slowdown.interval->high) : std::nullopt;
}

}  // namespace

std::string label_text(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') safe += '\\';
    if (letter == '\n')
      safe += "\\n";
    else
      safe += letter;
  }
  return safe;
}

std::string to_prometheus(const NightlyRecord& record) {
  const std::string labels =
      fmt::format("model=\"{}\",workload=\"{}\",device=\"{}\"", label_text(record.model),
                  label_text(record.workload), label_text(record.device));
  Family verdict("moetune_ci_verdict", "1 for the verdict that holds, 0 for the others.", labels);
  for (const NightlyVerdict each :
       {NightlyVerdict::ok, NightlyVerdict::regression, NightlyVerdict::indeterminate, NightlyVerdict::stale})
    verdict.add(fmt::format("verdict=\"{}\"", name_of(each)), each == record.result.verdict ? 1.0 : 0.0);

  Family slowdown("moetune_ci_slowdown_ratio",
                  "Share by which the objective is worse than in the baseline, with its 95 % interval.",
                  labels);
  Family metric("moetune_ci_metric",
                "What was measured, with its 95 % interval; units are in the metric's name.", labels);
  for (const NightlyPoint& point : record.input.points) {
    const std::string role = fmt::format("role=\"{}\"", name_of(point.role));
    if (point.slowdown)
      add_bounds(point.slowdown->value, low_of(*point.slowdown), high_of(*point.slowdown),
                 [&](const char* bound, double value) {
                   slowdown.add(fmt::format("{},bound=\"{}\"", role, bound), value);
                 });
    for (const auto& [name, measurement] : point.now)
      add_bounds(measurement.value, measurement.low, measurement.high, [&](const char* bound, double value) {
        metric.add(fmt::format("{},metric=\"{}\",bound=\"{}\"", role, label_text(name), bound), value);
      });
  }
  Family threshold("moetune_ci_threshold_ratio", "The slowdown that has to be found.", labels);
  threshold.add("", record.input.threshold);
  Family duration("moetune_ci_duration_seconds", "That the check took.", labels);
  duration.add("", record.seconds);
  std::string text;
  for (const Family* family : std::array{&verdict, &slowdown, &metric, &threshold, &duration})
    text += family->text();
  return text;
}

}  // namespace moetune
