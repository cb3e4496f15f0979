#include "tuner/compare/comparison_text.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tuner/metric_facts.h"
#include "tuner/report/escape.h"
#include "tuner/report/html_parts.h"

namespace moetune {
namespace {
using nlohmann::json;

std::string with_interval(const Measurement& measurement, const std::function<std::string(double)>& number) {
  std::string text = number(measurement.value);
  if (measurement.low && measurement.high)
    text += fmt::format(" ({})", joined_ends(*measurement.low, number(*measurement.low), *measurement.high,
                                             number(*measurement.high), "-"));
  if (measurement.origin != Origin::measured) text += fmt::format(" {}", name_of(measurement.origin));
  return text;
}

std::string metric_cell(const ComparedBox& box, const char* metric) {
  const auto found = box.recommended.metrics.find(metric);
  if (found == box.recommended.metrics.end()) return "-";
  return with_interval(found->second, [&](double value) {
    return find_metric(metric)->unit == "bytes" ? value_text(metric, value) : number_text(metric, value);
  });
}

// Of a box that nobody measured: what rests on its speed, as opposed to what it costs an hour.
std::string as_predicted(const ComparedBox& box, std::string text) {
  return box.is_predicted ? text + " predicted" : text;
}

// Where the speed is the most that it can be, the price of a token is the least.
std::string price_of_tokens_cell(const ComparedBox& box, const std::string& text) {
  return (box.is_fastest_possible ? "at least " : "") + text;
}

std::string usd(double value) { return number_text("usd_per_mtok", value); }
std::string usd_or_dash(const std::optional<double>& value) { return value ? usd(*value) : "-"; }

std::string configuration_cell(const ComparedBox& box) {
  if (box.missing_bytes > 0)
    return "does not fit: " + value_text("device_bytes", static_cast<double>(box.missing_bytes)) + " missing";
  return box.recommended.configuration.key();
}

std::string slo_cell(const ComparedBox& box) {
  if (!box.recommended.keeps_slo) return "-";
  return *box.recommended.keeps_slo ? "kept" : "missed";
}

std::string p99_cell(const ComparedBox& box) {
  const auto found = box.recommended.metrics.find("tpot_ms");
  return found == box.recommended.metrics.end() || !found->second.p99
             ? "-"
             : number_text("tpot_ms", *found->second.p99);
}

std::string busy_cell(const ComparedBox& box) {
  if (!box.own_usd_per_hour || !box.price.usd_per_hour) return "-";
  if (box.renting_always_cheaper) return "never: renting is cheaper";
  return fmt::format("{:.0f} % of all hours", 100.0 * *box.break_even_busy_share);
}

std::string rented_cell(const ComparedBox& box) {
  if (!box.recommended.usd_per_mtok) return "-";
  return price_of_tokens_cell(box, with_interval(*box.recommended.usd_per_mtok, usd));
}

std::string owned_cell(const ComparedBox& box) {
  if (!box.own_usd_per_mtok) return "-";
  return price_of_tokens_cell(box, as_predicted(box, usd(*box.own_usd_per_mtok)));
}

std::string load_cell(const ComparedBox& box) {
  if (box.is_cheapest_by_the_hour) return "cheapest by the hour";
  if (box.is_cheaper_by_the_hour) return "costs less by the hour";
  if (!box.price.usd_per_hour || box.missing_bytes > 0 || box.is_measured_beside) return "-";
  return as_predicted(
      box, box.break_even_tokens_per_s
               ? fmt::format("above {} tokens/s", number_text("tokens_per_s", *box.break_even_tokens_per_s))
               : "never");
}

// A remark and the boxes that it holds for: it is said once, with their names.
class SharedRemarks {
 public:
  void add(const std::string& remark, const std::string& box) {
    if (remark.empty()) return;
    const auto known = std::ranges::find(all_, remark, [](const auto& each) { return each.first; });
    std::vector<std::string>& boxes =
        known == all_.end() ? all_.emplace_back(remark, std::vector<std::string>{}).second : known->second;
    if (std::ranges::find(boxes, box) == boxes.end()) boxes.push_back(box);
  }
  // "Prices of A; B: a quote."
  std::vector<std::string> sentences(const char* before, const char* between) const {
    std::vector<std::string> made;
    for (const auto& [remark, boxes] : all_)
      made.push_back(fmt::format("{}{}{}{}.", before, fmt::join(boxes, "; "), between, remark));
    return made;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> all_;
};

std::string heading_of(const char* metric) {
  const MetricFacts* facts = find_metric(metric);
  return facts->unit == "bytes" ? std::string(metric) : fmt::format("{} ({})", metric, facts->unit);
}

std::string slo_text(const Slo& slo) {
  return slo.metric.empty() ? "no service level"
                            : fmt::format("service level {} <= {:g} ms", slo.metric, slo.limit_ms);
}

json point_json(const ComparedPoint& point) {
  return {{"configuration", to_json_value(point.configuration)},
          {"metrics", to_json_value(point.metrics)},
          {"keeps_slo", point.keeps_slo ? json(*point.keeps_slo) : json()},
          {"usd_per_mtok", point.usd_per_mtok ? to_json_value(*point.usd_per_mtok) : json()}};
}

template <class Number>
json or_null(const std::optional<Number>& number) {
  return number ? json(*number) : json();
}

std::string title_of(const Comparison& comparison) {
  return fmt::format("Workload {}, gate {}, {}", comparison.workload.name, comparison.gate,
                     slo_text(comparison.workload.slo));
}

}  // namespace

std::vector<std::string> comparison_headings(const Comparison& comparison) {
  std::vector<std::string> headings;
  for (const ComparedBox& box : comparison.boxes)
    headings.push_back(box.box + (box.is_predicted ? " (predicted)" : ""));
  for (std::string ComparedBox::* const more : {&ComparedBox::model, &ComparedBox::from}) {
    const std::vector<std::string> before = headings;
    for (std::size_t i = 0; i < headings.size(); ++i)
      if (std::ranges::count(before, before[i]) > 1) headings[i] += ", " + comparison.boxes[i].*more;
  }
  return headings;
}

std::vector<ComparisonRow> comparison_rows(const Comparison& comparison) {
  std::vector<ComparisonRow> rows;
  const auto add = [&](const std::string& name, const std::function<std::string(const ComparedBox&)>& cell) {
    ComparisonRow row{name, {}};
    for (const ComparedBox& box : comparison.boxes) row.cells.push_back(cell(box));
    if (std::any_of(row.cells.begin(), row.cells.end(), [](const std::string& text) { return text != "-"; }))
      rows.push_back(std::move(row));
  };
  add("model", [](const ComparedBox& box) { return box.model; });
  add("numbers",
      [](const ComparedBox& box) { return std::string(box.is_predicted ? "predicted" : "measured"); });
  add("configuration", configuration_cell);
  add("accuracy", [](const ComparedBox& box) { return box.accuracy.empty() ? "-" : box.accuracy; });
  add("service level", slo_cell);
  add(heading_of("tpot_ms"), [](const ComparedBox& box) { return metric_cell(box, "tpot_ms"); });
  add("tpot_ms p99", p99_cell);
  for (const char* metric : {"ttft_ms", "tokens_per_s", "device_bytes", "host_bytes"})
    add(heading_of(metric), [metric](const ComparedBox& box) { return metric_cell(box, metric); });
  add("J per million tokens", [](const ComparedBox& box) {
    return box.joules_per_mtok ? fmt::format("{:.3g}", *box.joules_per_mtok) : "-";
  });
  add("rent (USD/h)", [](const ComparedBox& box) { return usd_or_dash(box.price.usd_per_hour); });
  add("rented (USD/Mtok)", rented_cell);
  add("price to buy (USD)", [](const ComparedBox& box) {
    return box.price.buy_usd ? fmt::format("{:.0f}", *box.price.buy_usd) : "-";
  });
  add("power (W)",
      [](const ComparedBox& box) { return box.price.watts ? fmt::format("{:.0f}", *box.price.watts) : "-"; });
  add(fmt::format("owned {:g} years (USD/h)", comparison.money.years),
      [](const ComparedBox& box) { return usd_or_dash(box.own_usd_per_hour); });
  add("owned (USD/Mtok)", owned_cell);
  add("owning pays if busy", busy_cell);
  add("beats the cheapest", load_cell);
  return rows;
}

std::vector<std::string> comparison_remarks(const Comparison& comparison) {
  SharedRemarks of_models;
  SharedRemarks measured;
  SharedRemarks prices;
  SharedRemarks without_rent;
  SharedRemarks without_power;
  bool any_predicted = false;
  for (const ComparedBox& box : comparison.boxes) {
    of_models.add(box.remark, box.box + ", " + box.model);
    if (box.is_measured_beside)
      measured.add("what tokens cost stands in its measured column alone", box.box + ", " + box.model);
    else if (!box.measured_as.empty())
      measured.add("name '" + box.measured_as + "' as PROFILE, in place of the prediction",
                   box.box + ", " + box.model);
    prices.add(box.price.source, box.box);
    if (!box.price.usd_per_hour && box.missing_bytes == 0)
      without_rent.add("--prices FILE or --usd-per-hour brings it", box.box);
    if (box.price.buy_usd && !comparison.money.usd_per_kwh)
      without_power.add("--usd-per-kwh or usd_per_kwh in --prices", box.box);
    any_predicted = any_predicted || (box.is_predicted && box.missing_bytes == 0);
  }
  std::vector<std::string> remarks = of_models.sentences("", ": ");
  for (const auto& sentences :
       {measured.sentences("", " was measured as well: "), prices.sentences("Prices of ", ": "),
        without_rent.sentences("The rent of ", " is not known: "),
        without_power.sentences("What owning ", " costs is not known without the price of power: ")})
    remarks.insert(remarks.end(), sentences.begin(), sentences.end());
  std::string figures =
      "USD/Mtok: for a million output tokens of a box that is never idle. Owned: price over all hours of its "
      "years, and power while it serves; power that was measured is the GPU's alone. 'beats the cheapest': "
      "both rented around the clock, the load above which one such box costs less than as many of the one "
      "that is cheapest by the hour as the load needs.";
  if (any_predicted)
    figures +=
        " Money marked 'predicted' rests on a predicted speed, and the rest of its column on prices alone; "
        "'the cheapest' is a measured box, where one with a rent is among them.";
  remarks.push_back(std::move(figures));
  return remarks;
}

json to_json_value(const Comparison& comparison) {
  json boxes = json::array();
  const std::vector<std::string> headings = comparison_headings(comparison);
  for (const ComparedBox& box : comparison.boxes) {
    json entry = {{"box", box.box},
                  {"heading", headings[boxes.size()]},
                  {"model", box.model},
                  {"from", box.from},
                  {"origin", box.is_predicted ? "predicted" : "measured"},
                  {"remark", box.remark}};
    if (box.is_measured_beside) entry["measured_beside"] = true;
    if (!box.measured_as.empty()) entry["measured_as"] = box.measured_as;
    entry["fits"] = box.missing_bytes == 0;
    if (box.missing_bytes > 0) {
      entry["missing_bytes"] = box.missing_bytes;
    } else {
      entry["recommended"] = point_json(box.recommended);
      entry["front"] = json::array();
      for (const ComparedPoint& point : box.front) entry["front"].push_back(point_json(point));
    }
    entry["accuracy"] = box.accuracy;
    entry["price"] = {{"usd_per_hour", or_null(box.price.usd_per_hour)},
                      {"buy_usd", or_null(box.price.buy_usd)},
                      {"watts", or_null(box.price.watts)},
                      {"source", box.price.source}};
    entry["joules_per_mtok"] = or_null(box.joules_per_mtok);
    entry["own_usd_per_hour"] = or_null(box.own_usd_per_hour);
    entry["own_usd_per_mtok"] = or_null(box.own_usd_per_mtok);
    entry["break_even_busy_share"] = or_null(box.break_even_busy_share);
    entry["break_even_tokens_per_s"] = or_null(box.break_even_tokens_per_s);
    boxes.push_back(std::move(entry));
  }
  const Slo& slo = comparison.workload.slo;
  return {{"schema", 1},
          {"gate", comparison.gate},
          {"workload", comparison.workload.name},
          {"slo", slo.metric.empty() ? json() : json{{"metric", slo.metric}, {"limit_ms", slo.limit_ms}}},
          {"usd_per_kwh", or_null(comparison.money.usd_per_kwh)},
          {"years", comparison.money.years},
          {"boxes", boxes},
          {"remarks", comparison_remarks(comparison)}};
}

std::string comparison_markdown(const Comparison& comparison) {
  std::string heading = "| |";
  std::string line = "|---|";
  for (const std::string& box : comparison_headings(comparison)) {
    heading += " " + markdown_text(box) + " |";
    line += "---|";
  }
  std::string text = "# Boxes side by side\n\n" + markdown_text(title_of(comparison)) + ".\n\n" + heading +
                     "\n" + line + "\n";
  for (const ComparisonRow& row : comparison_rows(comparison)) {
    text += "| " + markdown_text(row.name) + " |";
    for (const std::string& cell : row.cells) text += " " + markdown_text(cell) + " |";
    text += "\n";
  }
  text += "\n";
  for (const std::string& remark : comparison_remarks(comparison))
    text += "- " + markdown_text(remark) + "\n";
  return text;
}

std::string comparison_html(const Comparison& comparison) {
  std::vector<std::string> headings{""};
  for (const std::string& box : comparison_headings(comparison)) headings.push_back(box);
  std::vector<HtmlRow> rows;
  for (const ComparisonRow& row : comparison_rows(comparison)) {
    HtmlRow cells{html_text(row.name)};
    for (const std::string& cell : row.cells) cells.push_back(html_text(cell));
    rows.push_back(std::move(cells));
  }
  std::string remarks;
  for (const std::string& remark : comparison_remarks(comparison)) remarks += html_paragraph(remark);
  const std::string html =
      "<header><h1>Boxes side by side</h1>" + html_paragraph(title_of(comparison), "about") +
      "<button type=\"button\" id=\"theme\" hidden></button></header>\n<main>\n" +
      html_section("figures", "Figures",
                   html_table("Recommended configuration of each box; intervals are 95 %", headings, rows)) +
      html_section(
          "money", "Dollars per million tokens against time per token",
          html_chart("money-chart",
                     "Large: recommended configurations. Small: the other configurations of their fronts "
                     "that meet the "
                     "gate. Only what keeps the service level is drawn. Arrow keys move between points.")) +
      html_section("remarks", "What to know", remarks) + "</main>\n";
  return html_page("Boxes side by side", html, "compare", to_json_value(comparison));
}

}  // namespace moetune
