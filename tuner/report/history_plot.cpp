#include "tuner/report/history_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tuner/counted.h"
#include "tuner/metric_facts.h"
#include "tuner/printable.h"
#include "tuner/report/escape.h"
#include "tuner/slowdown.h"

namespace moetune {
namespace {

constexpr std::size_t columns = 32;  // of the drawing

struct Scale {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void cover(const Measurement& measurement) {
    low = std::min(low, measurement.low.value_or(measurement.value));
    high = std::max(high, measurement.high.value_or(measurement.value));
  }
  std::size_t column(double value) const {
    if (!(high > low)) return columns / 2;
    const double place = (value - low) / (high - low) * static_cast<double>(columns - 1);
    return static_cast<std::size_t>(std::clamp(std::lround(place), 0L, static_cast<long>(columns - 1)));
  }
};

// "   [---o--]      "
std::string bar(const Scale& scale, const Measurement& measurement) {
  std::string line(columns, ' ');
  if (measurement.low && measurement.high) {
    const std::size_t from = scale.column(*measurement.low);
    const std::size_t to = scale.column(*measurement.high);
    std::fill(line.begin() + static_cast<std::ptrdiff_t>(from),
              line.begin() + static_cast<std::ptrdiff_t>(to) + 1, '-');
    line[from] = '[';
    line[to] = ']';
  }
  line[scale.column(measurement.value)] = 'o';
  return line;
}

std::string changed_words(const HistoryPoint& before, const HistoryPoint& now) {
  std::string words;
  const auto add = [&](const std::string& what) { words += (words.empty() ? "" : ", ") + what; };
  if (before.configuration != now.configuration) add("other configuration");
  if (before.build != now.build) add("build " + now.build);
  return words;
}

// "  <- +9.6 %, build 0.1.0 abc", only where something changed beyond doubt.
std::string mark_of(const HistorySeries& series, const std::vector<MetricChange>& changes,
                    std::size_t point) {
  const auto change = std::ranges::find(changes, point, &MetricChange::to);
  if (change == changes.end() || !change->is_beyond_doubt) return "";
  const std::string cause = changed_words(series.points[change->from], series.points[point]);
  const std::string size =
      change->ratio == 0.0 ? "from 0" : fmt::format("{:+.1f} %", 100.0 * (change->ratio - 1.0));
  return fmt::format("  <- {}{}", size, cause.empty() ? "" : ", " + cause);
}

// "  (2 rounds)", where these are too few to judge a change by; empty: there are enough.
std::string rounds_words(const Measurement& measurement) {
  return has_too_few_rounds(measurement) ? fmt::format("  ({})", counted(measurement.processes, "round"))
                                         : "";
}

// What the words above mean, where they stand somewhere.
std::string rounds_legend(const History& history) {
  for (const HistorySeries& series : history.series)
    for (const HistoryPoint& point : series.points)
      for (const auto& [metric, measurement] : point.metrics)
        if (has_too_few_rounds(measurement))
          return fmt::format(
              "A number of rounds behind a bar: too few to judge a change by, so none is marked\n"
              "there; its bar is their range. From {} on it is a 95 % interval.\n",
              fewest_rounds);
  return "";
}

std::string metric_heading(const std::string& metric) {
  const MetricFacts* facts = find_metric(metric);
  if (facts == nullptr) return metric;
  const char* better = facts->direction == Direction::smaller_is_better  ? ", smaller is better"
                       : facts->direction == Direction::larger_is_better ? ", larger is better"
                                                                         : "";
  return fmt::format("{}: {}{}", metric, facts->meaning, better);
}

std::string metric_lines(const HistorySeries& series, const std::string& metric) {
  Scale scale;
  for (const HistoryPoint& point : series.points)
    if (const auto found = point.metrics.find(metric); found != point.metrics.end())
      scale.cover(found->second);
  const std::vector<MetricChange> changes = changes_of(series, metric);
  std::string text;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const HistoryPoint& point = series.points[i];
    const auto found = point.metrics.find(metric);
    if (found == point.metrics.end()) continue;
    const std::string verdict =
        point.verdict.empty() || point.verdict == "ok" ? "" : "  (" + point.verdict + ")";
    text +=
        fmt::format("{:<16.16} {:>14} |{}|{}{}{}\n", printable(point.time),
                    number_text(metric, found->second.value), bar(scale, found->second),
                    printable(mark_of(series, changes, i)), rounds_words(found->second), printable(verdict));
  }
  return text;
}

std::string series_heading(const HistorySeries& series) {
  return fmt::format("{}, workload {}, {}: {}", series.model, series.workload, series.device,
                     counted(series.points.size(), "measurement"));
}

}  // namespace

std::string draw_history(const History& history) {
  std::string text;
  for (const HistorySeries& series : history.series) {
    text += printable(series_heading(series)) + "\n\n";
    for (const std::string& metric : metrics_in(series))
      text += printable(metric_heading(metric)) + "\n" + metric_lines(series, metric) + "\n";
  }
  text += rounds_legend(history);
  for (const std::string& file : history.left_out) text += "left out: " + printable(file) + "\n";
  return text;
}

std::string history_markdown(const History& history) {
  std::string text = "# History\n\n";
  for (const HistorySeries& series : history.series) {
    text += "## " + markdown_text(series_heading(series)) + "\n\n";
    for (const std::string& metric : metrics_in(series)) {
      text += "### " + markdown_text(metric_heading(metric)) + "\n\n```text\n";
      const std::string lines = metric_lines(series, metric);
      for (std::size_t begin = 0; begin < lines.size();) {
        const std::size_t end = lines.find('\n', begin);
        text += fenced_line(lines.substr(begin, end - begin)) + "\n";
        begin = end + 1;
      }
      text += "```\n\n";
    }
  }
  if (!history.left_out.empty()) text += "Left out:\n\n";
  for (const std::string& file : history.left_out) text += "- " + markdown_text(file) + "\n";
  text += "\nBars are 95 % intervals; an arrow marks a change beyond them.\n";
  const std::string legend = rounds_legend(history);
  return text + (legend.empty() ? "" : "\n" + legend);
}

}  // namespace moetune
