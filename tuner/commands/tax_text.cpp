#include "tuner/commands/tax_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "tuner/commands/table.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

constexpr double ns_per_ms = 1e6;
constexpr std::size_t bar_columns = 20;

// As people say them, in the order in which they are shown: the tax first.
constexpr std::array tax_parts = {
    std::pair{Part::communication, "communication"}, std::pair{Part::expert_loading, "expert loading"},
    std::pair{Part::synchronisation, "synchronisation"}, std::pair{Part::launch_gaps, "launch gaps"}};
constexpr std::array other_parts = {std::pair{Part::router, "router"}, std::pair{Part::compute, "compute"}};
constexpr std::array<const char*, kRows> row_words = {
    "router",       "experts: gate + up", "experts: down + combine", "shared experts",
    "dense layers", "attention and KV",   "head, sampling",          "embedding, other"};

std::string ms_text(double ns) {
  const double ms = ns / ns_per_ms;
  const double size = std::abs(ms);
  return fmt::format("{:.{}f}", ms, size >= 100.0 ? 1 : size >= 10.0 ? 2 : size >= 1.0 ? 3 : 4);
}

std::string share_text(double ns, double of_ns) {
  return of_ns > 0.0 ? fmt::format("{:.1f} %", 100.0 * ns / of_ns) : "";
}

std::string bar(double ns, double of_ns) {
  if (of_ns <= 0.0 || ns <= 0.0) return "";
  return std::string(std::min(bar_columns, static_cast<std::size_t>(
                                               std::lround(static_cast<double>(bar_columns) * ns / of_ns))),
                     '#');
}

std::size_t at(Part part) { return static_cast<std::size_t>(part); }

struct Line {
  std::string words;
  std::vector<double> ns;  // one per column
  double hidden_ns = 0.0;
  bool is_sum = false;  // no bar
};

std::string lines_text(const std::string& heading, const std::vector<BreakdownColumn>& columns,
                       const std::vector<Line>& lines) {
  bool hides = false;
  for (const Line& line : lines) hides = hides || line.hidden_ns > 0.0;
  Table table{.headings = {heading, "ms", "share", ""},
              .alignment = {Align::left, Align::right, Align::right, Align::left},
              .rows = {}};
  if (hides) {
    table.headings.emplace_back("hidden ms");
    table.alignment.push_back(Align::right);
  }
  for (std::size_t column = 1; column < columns.size(); ++column) {
    table.headings.insert(table.headings.end(), {columns[column].title + " ms", "share"});
    table.alignment.insert(table.alignment.end(), {Align::right, Align::right});
  }
  for (const Line& line : lines) {
    const double whole_ns = columns.front().breakdown->token_ns;
    std::vector<std::string> row = {line.words, ms_text(line.ns.front()),
                                    share_text(line.ns.front(), whole_ns),
                                    line.is_sum ? "" : bar(line.ns.front(), whole_ns)};
    if (hides) row.push_back(line.hidden_ns > 0.0 ? ms_text(line.hidden_ns) : "");
    for (std::size_t column = 1; column < columns.size(); ++column)
      row.insert(row.end(), {ms_text(line.ns[column]),
                             share_text(line.ns[column], columns[column].breakdown->token_ns)});
    table.rows.push_back(std::move(row));
  }
  return table.text();
}

constexpr std::size_t shown_unmatched = 10;

// A trace is its own plain time: nothing else is known of the run.
Breakdown imported_breakdown(const Account& account, std::int64_t tokens) {
  const double steps = tokens > 0 ? static_cast<double>(tokens) : 1.0;
  Breakdown breakdown =
      break_down(std::vector{account}, std::max(1.0, static_cast<double>(account.length_ns)), {});
  breakdown.unexplained_ns = 0.0;
  breakdown.token_ns = static_cast<double>(account.length_ns) / steps;
  breakdown.recorded_ns = breakdown.token_ns;
  breakdown.n = tokens > 0 ? tokens : 1;
  for (double& ns : breakdown.exposed_ns) ns /= steps;
  for (double& ns : breakdown.hidden_ns) ns /= steps;
  for (double& ns : breakdown.row_ns) ns /= steps;
  return breakdown;
}

std::vector<std::pair<std::string, double>> by_time(const std::map<std::string, double>& times_ns) {
  std::vector<std::pair<std::string, double>> sorted(times_ns.begin(), times_ns.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

nlohmann::json causes_json(const TokenCauses& causes) {
  nlohmann::json object = {{"expert_loads", causes.expert_loads}};
  if (!causes.is_of_host) return object;
  object["minor_faults"] = causes.minor_faults;
  object["major_faults"] = causes.major_faults;
  object["preemptions"] = causes.preemptions;
  return object;
}

}  // namespace

nlohmann::json to_json_value(const Breakdown& breakdown) {
  nlohmann::json object = {{"token_ms", breakdown.token_ns / ns_per_ms},
                           {"recorded_ms", breakdown.recorded_ns / ns_per_ms},
                           {"n", breakdown.n}};
  if (!breakdown.refused.empty()) {
    object["refused"] = breakdown.refused;
    return object;
  }
  object["recording_cost_ms"] = breakdown.recording_ns / ns_per_ms;
  for (std::size_t part = 0; part < kParts; ++part) {
    object["exposed_ms"][std::string(kPartNames[part])] = breakdown.exposed_ns[part] / ns_per_ms;
    object["hidden_ms"][std::string(kPartNames[part])] = breakdown.hidden_ns[part] / ns_per_ms;
  }
  object["unexplained_ms"] = breakdown.unexplained_ns / ns_per_ms;
  for (std::size_t row = 0; row < kRows; ++row)
    object["rows_ms"][std::string(kRowNames[row])] = breakdown.row_ns[row] / ns_per_ms;
  object["tax_ms"] = breakdown.tax_ns() / ns_per_ms;
  object["tax_share"] = breakdown.tax_share();
  return object;
}

nlohmann::json to_json_value(const PhaseTax& phase) {
  nlohmann::json object = to_json_value(phase.typical);
  object["causes"] = causes_json(phase.typical_causes);
  if (phase.slowest) {
    object["slowest_hundredth"] = to_json_value(*phase.slowest);
    object["slowest_hundredth"]["causes"] = causes_json(phase.slowest_causes);
  }
  return object;
}

std::string breakdown_table(const std::vector<BreakdownColumn>& columns) {
  std::vector<Line> lines;
  const auto add = [&](const std::string& words, const auto& value, double hidden_ns, bool is_sum) {
    Line line{.words = words, .ns = {}, .hidden_ns = hidden_ns, .is_sum = is_sum};
    for (const BreakdownColumn& column : columns) line.ns.push_back(value(*column.breakdown));
    lines.push_back(std::move(line));
  };
  const auto add_part = [&](Part part, const std::string& words) {
    add(
        words, [part](const Breakdown& one) { return one.exposed_ns[at(part)]; },
        columns.front().breakdown->hidden_ns[at(part)], false);
  };
  for (const auto& [part, words] : tax_parts) add_part(part, words);
  add("  tax", [](const Breakdown& one) { return one.tax_ns(); }, 0.0, true);
  for (const auto& [part, words] : other_parts) add_part(part, words);
  add("unexplained", [](const Breakdown& one) { return one.unexplained_ns; }, 0.0, false);
  add("  all", [](const Breakdown& one) { return one.token_ns; }, 0.0, true);
  return lines_text(columns.front().title, columns, lines);
}

std::string rows_table(const std::vector<BreakdownColumn>& columns) {
  std::vector<Line> lines;
  for (std::size_t row = 0; row < kRows; ++row) {
    Line line{.words = row_words[row], .ns = {}};
    for (const BreakdownColumn& column : columns) line.ns.push_back(column.breakdown->row_ns[row]);
    if (std::ranges::any_of(line.ns, [](double ns) { return ns > 0.0; })) lines.push_back(std::move(line));
  }
  return lines_text("of router and compute", columns, lines);
}

std::string slowest_text(const PhaseTax& phase) {
  if (!phase.slowest) return "Fewer than 100 steps: the slowest hundredth is not known.";
  const Breakdown& slow = *phase.slowest;
  Table table{.headings = {"", "typical ms", "slowest 1 % ms", "more"},
              .alignment = {Align::left, Align::right, Align::right, Align::right},
              .rows = {}};
  const auto add = [&](const std::string& words, double typical_ns, double slow_ns) {
    table.rows.push_back({words, ms_text(typical_ns), ms_text(slow_ns), ms_text(slow_ns - typical_ns)});
  };
  const auto add_part = [&](Part part, const char* words) {
    add(words, phase.typical.exposed_ns[at(part)], slow.exposed_ns[at(part)]);
  };
  for (const auto& [part, words] : tax_parts) add_part(part, words);
  for (const auto& [part, words] : other_parts) add_part(part, words);
  add("  all", phase.typical.token_ns, slow.token_ns);
  const auto causes = [](const TokenCauses& one) {
    if (!one.is_of_host) return fmt::format("{:.1f} expert loads", one.expert_loads);
    return fmt::format(
        "{:.1f} expert loads, {:.2f} page faults ({:.2f} from disk), {:.2f} times a core taken away",
        one.expert_loads, one.minor_faults + one.major_faults, one.major_faults, one.preemptions);
  };
  return table.text() + "\ntypical: " + causes(phase.typical_causes) +
         "\nslowest: " + causes(phase.slowest_causes);
}

std::string rounds_table(const std::vector<RoundTax>& rounds) {
  Table table{.headings = {"round", "ms", "tax ms", "share", "tax so far ms"},
              .alignment = {Align::right, Align::right, Align::right, Align::right, Align::right},
              .rows = {}};
  double so_far_ns = 0.0;
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    const Breakdown& one = rounds[round].whole;
    if (!one.refused.empty()) {
      table.rows.push_back({std::to_string(round + 1), ms_text(one.token_ns), "refused", "", ""});
      continue;
    }
    so_far_ns += one.tax_ns();
    table.rows.push_back({std::to_string(round + 1), ms_text(one.token_ns), ms_text(one.tax_ns()),
                          share_text(one.tax_ns(), one.token_ns), ms_text(so_far_ns)});
  }
  return table.text();
}

std::string task_text(const Breakdown& task) {
  if (!task.refused.empty()) return "The whole task: no breakdown: " + task.refused;
  return fmt::format("The whole task: {} ms (task_ms of a trial), of it tax {} ms, {} (task_tax_ms).",
                     ms_text(task.token_ns), ms_text(task.tax_ns()),
                     share_text(task.tax_ns(), task.token_ns));
}

std::string imported_text(const std::string& file, const ImportedTrace& trace, std::int64_t tokens) {
  std::string text = fmt::format("{}: {} kernels and {} copies on {} device{}\n", file, trace.kernels,
                                 trace.copies, trace.devices.size(), trace.devices.size() == 1 ? "" : "s");
  for (const ImportedAccount& one : imported_accounts(trace)) {
    const Breakdown breakdown = imported_breakdown(one.account, tokens);
    const std::string title = fmt::format("device {}, {}", one.device, tokens > 0 ? "one step" : "all of it");
    text += "\n" + breakdown_table({{title, &breakdown}}) + "\n\n" + rows_table({{title, &breakdown}}) + "\n";
    if (one.idle_ns > 0)
      text += fmt::format("left out: {:.1f} ms in which nothing ran for more than {} ms at a time\n",
                          static_cast<double>(one.idle_ns) / ns_per_ms, kIdleNs / 1'000'000);
  }
  const auto unmatched = by_time(trace.unmatched_ns);
  if (unmatched.empty()) return text + "\nEvery kernel is known by its name.";
  double sum_ns = 0.0;
  for (const auto& [name, ns] : unmatched) sum_ns += ns;
  text += fmt::format(
      "\nUnmatched: {:.3f} ms, {} of kernel time, in kernels that no pattern knows; they count as other "
      "compute\n",
      sum_ns / ns_per_ms, share_text(sum_ns, trace.kernel_ns));
  Table table{.alignment = {Align::right, Align::left}, .rows = {}};
  for (std::size_t i = 0; i < std::min(shown_unmatched, unmatched.size()); ++i)
    table.rows.push_back({ms_text(unmatched[i].second), fitted(unmatched[i].first, 66)});
  return text + table.text();
}

nlohmann::json imported_json(const std::string& file, const ImportedTrace& trace, std::int64_t tokens) {
  nlohmann::json document = {{"file", file},
                             {"kernels", trace.kernels},
                             {"copies", trace.copies},
                             {"devices", nlohmann::json::array()}};
  if (tokens > 0) document["steps"] = tokens;
  for (const ImportedAccount& one : imported_accounts(trace)) {
    nlohmann::json device = to_json_value(imported_breakdown(one.account, tokens));
    device["device"] = one.device;
    device["idle_ms"] = static_cast<double>(one.idle_ns) / ns_per_ms;
    document["devices"].push_back(std::move(device));
  }
  document["unmatched_ms"] = nlohmann::json::object();
  for (const auto& [name, ns] : trace.unmatched_ns)
    document["unmatched_ms"][printable(name)] = ns / ns_per_ms;
  document["kernel_ms"] = trace.kernel_ns / ns_per_ms;
  return document;
}

namespace {

// "0.3700 (0.3511-0.3902)": all with as many decimals as the value; "r" marks a range.
std::string with_spread(double ns, const std::optional<RunSpread>& spread) {
  const std::string value = ms_text(ns);
  if (!spread) return value;
  const std::size_t point = value.find('.');
  const auto same = [&](double end_ns) {
    return fmt::format("{:.{}f}", end_ns / ns_per_ms, value.size() - point - 1);
  };
  return fmt::format("{} ({}-{}{})", value, same(spread->ns.low), same(spread->ns.high),
                     spread->is_range ? ", r" : "");
}

std::string swept_phase(const std::string& heading, const std::vector<SweepPoint>& points, const char* what,
                        PhaseTax SweepPoint::* phase) {
  Table table{.headings = {heading, fmt::format("{} ms", what), "tax ms", "share", ""},
              .alignment = {Align::right, Align::right, Align::right, Align::right, Align::left},
              .rows = {}};
  for (const SweepPoint& point : points) {
    std::vector<std::string> row = {std::to_string(point.value)};
    const PhaseTax& tax = point.*phase;
    const Breakdown& one = tax.typical;
    if (!point.objection.empty()) {
      row.push_back(point.objection);
    } else if (!one.refused.empty()) {
      row.insert(row.end(), {with_spread(one.token_ns, tax.token_spread), "refused"});
    } else {
      row.insert(row.end(),
                 {with_spread(one.token_ns, tax.token_spread), with_spread(one.tax_ns(), tax.tax_spread),
                  share_text(one.tax_ns(), one.token_ns), bar(one.tax_ns(), one.token_ns)});
    }
    table.rows.push_back(std::move(row));
  }
  return table.text();
}

nlohmann::json spread_json(const std::optional<RunSpread>& spread) {
  if (!spread) return nullptr;
  return {{"low_ms", spread->ns.low / ns_per_ms},
          {"high_ms", spread->ns.high / ns_per_ms},
          {"runs", spread->runs},
          {"is_range", spread->is_range}};
}

nlohmann::json swept_json(const PhaseTax& tax) {
  nlohmann::json object = to_json_value(tax.typical);
  object["token_interval"] = spread_json(tax.token_spread);
  if (tax.typical.refused.empty()) object["tax_interval"] = spread_json(tax.tax_spread);
  return object;
}

}  // namespace

std::string sweep_table(const std::string& heading, const std::vector<SweepPoint>& points) {
  return swept_phase(heading, points, "step", &SweepPoint::decode) + "\n\n" +
         swept_phase(heading, points, "prompt", &SweepPoint::prefill);
}

nlohmann::json to_json_value(const std::vector<SweepPoint>& points, const char* name) {
  nlohmann::json list = nlohmann::json::array();
  for (const SweepPoint& point : points) {
    nlohmann::json object = {{name, point.value}};
    if (!point.objection.empty()) {
      object["objection"] = point.objection;
    } else {
      object["decode"] = swept_json(point.decode);
      object["prefill"] = swept_json(point.prefill);
    }
    list.push_back(std::move(object));
  }
  return list;
}

}  // namespace moetune
