#include "tuner/serving/confirmation.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "tuner/printable.h"

namespace moetune {
namespace {

enum class Standing { within, open, beyond };

Standing standing(const Measurement& measured, double limit) {
  if (!measured.low || !measured.high) return Standing::open;
  if (*measured.high <= limit) return Standing::within;
  return *measured.low > limit ? Standing::beyond : Standing::open;
}

const char* words_of(Standing standing) {
  switch (standing) {
    case Standing::within:
      return "within";
    case Standing::beyond:
      return "beyond";
    case Standing::open:
      return "not told from";
  }
  return "";
}

// "tpot_p99" -> the p99 of tpot_ms; "ttft" -> the median of ttft_ms. Empty: not a level that a server's
// answers show.
std::optional<Standing> level(const Slo& slo, const Metrics& served) {
  const bool is_p99 = slo.metric.ends_with("_p99");
  const std::string metric = (is_p99 ? slo.metric.substr(0, slo.metric.size() - 4) : slo.metric) + "_ms";
  const auto found = served.find(metric);
  if (found == served.end() || slo.limit_ms <= 0.0) return std::nullopt;
  if (!is_p99) return standing(found->second, slo.limit_ms);
  if (!found->second.p99) return Standing::open;
  return *found->second.p99 <= slo.limit_ms ? Standing::within : Standing::beyond;
}

// The newest of each server, model and workload, newest first.
std::vector<Confirmation> last_words(const std::vector<Confirmation>& confirmations) {
  std::vector<Confirmation> last;
  for (auto one = confirmations.rbegin(); one != confirmations.rend(); ++one) {
    const bool is_known = std::ranges::any_of(last, [&](const Confirmation& newer) {
      return newer.server == one->server && newer.model == one->model && newer.workload == one->workload;
    });
    if (!is_known) last.push_back(*one);
  }
  return last;
}

}  // namespace

std::string confirmation_text(const Confirmation& confirmation) {
  const bool is_refutation = confirmation.verdict == "refuted";
  // Names are the server's own.
  return printable(fmt::format("{} by {} (model {}, workload {}, {}): {}",
                               is_refutation ? "REFUTED" : confirmation.verdict, confirmation.server,
                               confirmation.model, confirmation.workload, confirmation.measured_at,
                               confirmation.reason));
}

std::vector<std::string> confirmation_lines(const std::vector<Confirmation>& confirmations) {
  std::vector<std::string> lines;
  for (const Confirmation& one : last_words(confirmations)) lines.push_back(confirmation_text(one));
  return lines;
}

bool is_refuted(const std::vector<Confirmation>& confirmations) {
  return std::ranges::any_of(last_words(confirmations),
                             [](const Confirmation& one) { return one.verdict == "refuted"; });
}

Confirmation judged(const LaunchProfile& profile, const Metrics& served, double tolerance) {
  Confirmation result;
  result.workload = profile.workload.name;
  for (const auto& [metric, measured] : served)
    result.evidence.push_back({metric, measured.value, measured.low, measured.high, measured.p99, measured.n,
                               std::string(name_of(measured.origin)), measured.stopped, measured.processes});
  bool refuted = false;
  bool open = true;
  const auto& promised = profile.recommended.evidence;
  for (const char* const metric : {"tpot_ms", "ttft_ms"}) {
    const auto promise = std::ranges::find(promised, metric, &Evidence::metric);
    const auto measured = served.find(metric);
    if (promise == promised.end() || measured == served.end()) continue;
    const Standing found = standing(measured->second, promise->value * (1.0 + tolerance));
    refuted = found == Standing::beyond;
    open = found == Standing::open;
    result.reason = fmt::format("{} {:.4g}", metric, measured->second.value);
    if (measured->second.low && measured->second.high)
      result.reason += fmt::format(" ({:.4g}-{:.4g})", *measured->second.low, *measured->second.high);
    result.reason += fmt::format(" is {} {:.0f} % above the {:.4g} of our engine", words_of(found),
                                 100.0 * tolerance, promise->value);
    break;
  }
  if (result.reason.empty()) result.reason = "nothing that the profile promises was measured";
  if (const std::optional<Standing> slo = level(profile.workload.slo, served)) {
    refuted = refuted || *slo == Standing::beyond;
    open = open || *slo == Standing::open;
    result.reason += fmt::format("; {} the service level {} <= {:g} ms", words_of(*slo),
                                 profile.workload.slo.metric, profile.workload.slo.limit_ms);
  }
  result.verdict = refuted ? "refuted" : open ? "indeterminate" : "confirmed";
  return result;
}

}  // namespace moetune
