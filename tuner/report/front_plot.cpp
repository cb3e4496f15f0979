#include "tuner/report/front_plot.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "tuner/metric_facts.h"
#include "tuner/printable.h"
#include "tuner/report/metric_column.h"

namespace moetune {
namespace {

constexpr int most_columns = 80;
constexpr int least_columns = 40;
constexpr int plot_rows = 14;
constexpr int label_columns = 10;  // of the y axis, with its line
constexpr std::size_t most_front_rows = 12;
constexpr double log_from_ratio = 20.0;  // an axis that spans more than this is drawn logarithmically
constexpr double log_span = 1e6;  // and spans at most this: rounding noise must not take half of the plot

enum class Mark : std::uint8_t {
  none,
  trial,
  front,
  usual,
  recommended
};  // a later one hides an earlier one

char sign_of(Mark mark) { return " .oDR"[static_cast<std::size_t>(mark)]; }

std::string coloured(Mark mark, const std::string& text, const Terminal& terminal) {
  if (!terminal.colour) return text;
  if (mark == Mark::recommended) return "\033[1;32m" + text + "\033[0m";
  if (mark == Mark::usual) return "\033[33m" + text + "\033[0m";
  return text;
}

Mark mark_of(const RunReport& report, std::int64_t trial) {
  if (report.verdict.recommended == trial) return Mark::recommended;
  if (trial == 0) return Mark::usual;
  return std::find(report.front.begin(), report.front.end(), trial) != report.front.end() ? Mark::front
                                                                                          : Mark::trial;
}

// From a value to a place between 0 and 1.
class Axis {
 public:
  // metric: says the unit; decibels are logarithms already.
  Axis(const std::vector<double>& values, const std::string& metric) {
    const MetricFacts* const facts = find_metric(metric);
    const bool may_be_log = facts == nullptr || facts->unit != "dB";
    low_ = *std::min_element(values.begin(), values.end());
    high_ = *std::max_element(values.begin(), values.end());
    double least_positive = high_;
    for (const double value : values)
      if (value > 0.0) least_positive = std::min(least_positive, value);
    // A KL of exactly zero (the reference itself) has no logarithm: it is drawn at the edge, which says so.
    is_log_ = may_be_log && low_ >= 0.0 && least_positive > 0.0 && high_ / least_positive > log_from_ratio;
    if (!is_log_) return;
    is_zero_at_edge_ = low_ == 0.0;
    is_less_at_edge_ = least_positive < high_ / log_span;
    low_ = std::max(least_positive, high_ / log_span);
  }
  double place(double value) const {
    if (high_ <= low_) return 0.5;
    if (!is_log_) return (value - low_) / (high_ - low_);
    return value <= low_ ? 0.0 : std::log(value / low_) / std::log(high_ / low_);
  }
  double value_at(double place) const {
    if (high_ <= low_) return low_;
    return is_log_ ? low_ * std::pow(high_ / low_, place) : low_ + place * (high_ - low_);
  }
  // ", logarithmic, 0 lies at the bottom"; edge: where the low end is. Empty: the axis is linear.
  std::string log_words(const char* edge) const {
    if (!is_log_) return "";
    if (!is_zero_at_edge_ && !is_less_at_edge_) return ", logarithmic";
    return fmt::format(", logarithmic, {} at the {}",
                       !is_less_at_edge_  ? "0 lies"
                       : is_zero_at_edge_ ? "0 and what is less lie"
                                          : "what is less lies",
                       edge);
  }

 private:
  double low_ = 0.0;
  double high_ = 0.0;
  bool is_log_ = false;
  bool is_zero_at_edge_ = false;
  bool is_less_at_edge_ = false;  // positive, but less than the axis spans
};

struct Point {
  double x = 0.0;
  double y = 0.0;
  Mark mark = Mark::none;
};

std::vector<Point> points_of(const RunReport& report) {
  std::vector<Point> points;
  for (const Trial& trial : report.trials) {
    const auto x = trial.metrics.find(report.objectives[0].metric);
    const auto y = trial.metrics.find(report.objectives[1].metric);
    if (trial.outcome != Outcome::ok || x == trial.metrics.end() || y == trial.metrics.end()) continue;
    points.push_back({x->second.value, y->second.value, mark_of(report, trial.number)});
  }
  return points;
}

std::string without_trailing_blanks(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

std::string scatter(const RunReport& report, const Terminal& terminal, int columns) {
  const std::vector<Point> points = points_of(report);
  if (points.empty()) return "";
  std::vector<double> xs;
  std::vector<double> ys;
  for (const Point& point : points) {
    xs.push_back(point.x);
    ys.push_back(point.y);
  }
  const Axis x_axis(xs, report.objectives[0].metric);
  const Axis y_axis(ys, report.objectives[1].metric);
  const MetricColumn x_column(report.objectives[0].metric, report.trials);
  const MetricColumn y_column(report.objectives[1].metric, report.trials);
  const int width = columns - label_columns;

  std::vector<std::vector<Mark>> field(plot_rows,
                                       std::vector<Mark>(static_cast<std::size_t>(width), Mark::none));
  for (const Point& point : points) {
    const auto column = static_cast<std::size_t>(std::lround(x_axis.place(point.x) * (width - 1)));
    const auto row = static_cast<std::size_t>(std::lround((1.0 - y_axis.place(point.y)) * (plot_rows - 1)));
    field[row][column] = std::max(field[row][column], point.mark);
  }

  const auto width_of_text = static_cast<std::size_t>(columns);
  std::string text = fitted(y_column.heading() + y_axis.log_words("bottom"), width_of_text) + "\n";
  for (int row = 0; row < plot_rows; ++row) {
    const bool has_label = row == 0 || row == plot_rows - 1 || row == plot_rows / 2;
    const double value = y_axis.value_at(1.0 - static_cast<double>(row) / (plot_rows - 1));
    text += fmt::format("{:>{}} |", has_label ? fitted(y_column.number(value), label_columns - 2) : "",
                        label_columns - 2);
    std::string line;
    for (const Mark mark : field[static_cast<std::size_t>(row)])
      line += coloured(mark, std::string(1, sign_of(mark)), terminal);
    text += without_trailing_blanks(line) + "\n";
  }
  text +=
      std::string(label_columns - 1, ' ') + "+" + std::string(static_cast<std::size_t>(width), '-') + "\n";
  const std::string low = x_column.number(x_axis.value_at(0.0));
  const std::string high = x_column.number(x_axis.value_at(1.0));
  text += fmt::format("{:{}}{:<{}}{}\n", "", label_columns, low,
                      std::max(width - static_cast<int>(high.size()), 0), high);
  text += fmt::format("{:{}}{}\n", "", label_columns,
                      fitted(x_column.heading() + x_axis.log_words("left"), static_cast<std::size_t>(width)));
  const auto better = [](const Objective& objective, const char* small, const char* large) {
    return objective.maximize ? large : small;
  };
  const std::string legend =
      fmt::format("R recommended  D default  o front  . other   (better: {}, {})",
                  better(report.objectives[0], "left", "right"), better(report.objectives[1], "down", "up"));
  return text + fitted(legend, width_of_text) + "\n\n";
}

std::string front_rows(const RunReport& report, const Terminal& terminal, int columns) {
  std::vector<std::int64_t> numbers(
      report.front.begin(),
      report.front.begin() + static_cast<std::ptrdiff_t>(std::min(report.front.size(), most_front_rows)));
  const auto add = [&](std::int64_t number) {
    if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) numbers.push_back(number);
  };
  if (report.verdict.recommended) add(*report.verdict.recommended);
  if (!report.trials.empty()) add(0);

  const Knobs knobs = knobs_of(report.trials);
  const std::vector<MetricColumn> metrics = objective_columns(report);
  std::vector<std::size_t> widths;
  for (const MetricColumn& metric : metrics) {
    std::size_t width = std::max(metric.metric().size(), metric.unit().size());
    for (const std::int64_t number : numbers)
      width = std::max(width, metric.short_cell(report.trial(number)).size());
    widths.push_back(width);
  }

  std::string names = "  trial";
  std::string units = "       ";
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    names += fmt::format("  {:<{}}", metrics[i].metric(), widths[i]);
    units += fmt::format("  {:<{}}", metrics[i].unit(), widths[i]);
  }
  const auto width = static_cast<std::size_t>(columns);
  std::string text = fitted(without_trailing_blanks(names), width) + "\n" +
                     fitted(without_trailing_blanks(units), width) + "\n";
  for (const std::int64_t number : numbers) {
    const Trial& trial = report.trial(number);
    const Mark mark = mark_of(report, number);
    std::string line = fmt::format("{} {:>5}", sign_of(mark), number);
    if (trial.outcome == Outcome::ok) {
      for (std::size_t i = 0; i < metrics.size(); ++i)
        line += fmt::format("  {:<{}}", metrics[i].short_cell(trial), widths[i]);
    } else {
      line += fmt::format("  {}: {}", name_of(trial.outcome), trial.reason);
    }
    text += coloured(mark, fitted(without_trailing_blanks(line), width), terminal) + "\n" +
            fitted("         " + varied_text(trial.configuration, knobs), width) + "\n";
  }
  if (report.front.size() > most_front_rows)
    text += fmt::format("{} more are in front.csv\n", report.front.size() - most_front_rows);
  return text;
}

}  // namespace

std::string draw_front(const RunReport& report, const Terminal& terminal) {
  const int columns = std::clamp(terminal.columns, least_columns, most_columns);
  if (report.front.empty()) return "The front is empty: no trial has a value for every objective.\n";
  return (report.objectives.size() >= 2 ? scatter(report, terminal, columns) : "") +
         front_rows(report, terminal, columns);
}

}  // namespace moetune
