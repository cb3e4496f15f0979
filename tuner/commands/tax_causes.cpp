#include "tuner/commands/tax_causes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tuner/commands/table.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

constexpr double ns_per_ms = 1e6;
constexpr double least_share = 0.5;    // of what slow tokens take more, for a cause
constexpr double least_events = 0.5;   // more per token than usual, for a cause
constexpr double least_thread = 0.01;  // of a run, to be shown
constexpr std::size_t most_threads = 12;

// As the table of parts has them.
constexpr std::array<std::string_view, kParts> words = {
    "communication: the ranks waited for the last of them",
    "expert loading",
    "synchronisation",
    "the router",
    "launch gaps",
    "compute"};

// What the operating system or the driver did that makes any part longer.
std::string seen_beside(const PhaseTax& phase, const GpuUse& use) {
  const TokenCauses& slow = phase.slowest_causes;
  const TokenCauses& typical = phase.typical_causes;
  std::vector<std::string> seen;
  if (slow.expert_loads > typical.expert_loads + least_events)
    seen.push_back(fmt::format("misses ({:.1f} expert loads a token against {:.1f})", slow.expert_loads,
                               typical.expert_loads));
  if (slow.is_of_host && slow.preemptions > typical.preemptions + least_events)
    seen.push_back(fmt::format("another process on our cores ({:.1f} times a token)", slow.preemptions));
  if (slow.is_of_host && slow.major_faults > typical.major_faults + least_events)
    seen.push_back(fmt::format("pages read from disk ({:.1f} a token)", slow.major_faults));
  else if (slow.is_of_host && slow.minor_faults > typical.minor_faults + least_events)
    seen.push_back(
        fmt::format("page faults ({:.1f} a token against {:.1f})", slow.minor_faults, typical.minor_faults));
  if (!use.held_down_by.empty())
    seen.push_back(fmt::format("a clock that is held down ({})", fmt::join(use.held_down_by, ", ")));
  return fmt::format("{}", fmt::join(seen, "; "));
}

}  // namespace

std::string cause_of_slowest(const PhaseTax& phase, const GpuUse& use) {
  if (!phase.slowest) return "";
  const double more_ns = phase.slowest->token_ns - phase.typical.token_ns;
  if (more_ns <= 0.0) return "The slowest 1 % take no longer than the others.";
  std::array<double, kParts> grown{};
  for (std::size_t part = 0; part < kParts; ++part)
    grown[part] = phase.slowest->exposed_ns[part] - phase.typical.exposed_ns[part];
  const auto most = static_cast<std::size_t>(std::ranges::max_element(grown) - grown.begin());
  const std::string beside = seen_beside(phase, use);
  std::string text = fmt::format("The slowest 1 % take {:.4f} ms more", more_ns / ns_per_ms);
  if (grown[most] < least_share * more_ns)
    text +=
        fmt::format(", in no part more than {:.0f} % of it", 100.0 * std::max(0.0, grown[most]) / more_ns);
  else
    text += fmt::format(", {:.0f} % of it {}", std::min(100.0, 100.0 * grown[most] / more_ns), words[most]);
  return text + (beside.empty() ? "; nothing else was seen beside it." : ". Beside it: " + beside + ".");
}

std::string host_text(const HostUse& host) {
  if (host.threads.empty() || host.run_ns <= 0.0) return "";
  Table table{.headings = {"host thread", "on a core ms", "of a run", "waited for a core ms"},
              .alignment = {Align::left, Align::right, Align::right, Align::right},
              .rows = {}};
  for (const ThreadTime& thread : host.threads) {
    const auto running_ns = static_cast<double>(thread.running_ns);
    const auto waiting_ns = static_cast<double>(thread.waiting_ns);
    if (running_ns + waiting_ns < least_thread * host.run_ns || table.rows.size() == most_threads) continue;
    table.rows.push_back({printable(thread.name), fmt::format("{:.3f}", running_ns / ns_per_ms),
                          fmt::format("{:.1f} %", 100.0 * running_ns / host.run_ns),
                          fmt::format("{:.3f}", waiting_ns / ns_per_ms)});
  }
  const auto left_out = host.threads.size() - table.rows.size();
  std::string text = table.text();
  if (left_out > 0) text += fmt::format("\nand {} that did less", left_out);
  return text + fmt::format(
                    "\na run takes {:.3f} ms; in {} of them {} page faults ({} from disk), {} times a core "
                    "taken away",
                    host.run_ns / ns_per_ms, host.runs, host.causes.minor_faults + host.causes.major_faults,
                    host.causes.major_faults, host.causes.preemptions);
}

nlohmann::json to_json_value(const HostUse& host) {
  nlohmann::json threads = nlohmann::json::array();
  for (const ThreadTime& thread : host.threads)
    threads.push_back({{"name", printable(thread.name)},
                       {"running_ms", static_cast<double>(thread.running_ns) / ns_per_ms},
                       {"waiting_ms", static_cast<double>(thread.waiting_ns) / ns_per_ms}});
  return {{"run_ms", host.run_ns / ns_per_ms},        {"runs", host.runs},
          {"minor_faults", host.causes.minor_faults}, {"major_faults", host.causes.major_faults},
          {"preemptions", host.causes.preemptions},   {"threads", std::move(threads)}};
}

}  // namespace moetune
