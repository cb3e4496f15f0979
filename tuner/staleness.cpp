#include "tuner/staleness.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "tuner/metric_facts.h"

namespace moetune {
namespace {

// Memory that may be used depends on what else runs: only a difference that could change a plan counts.
constexpr double same_memory = 0.05;
constexpr double same_watts = 0.5;
constexpr double same_rate = 0.2;
constexpr auto not_known = "not known";
// The repeats of one probe lie within a tenth of a second, and a neighbour stays for longer: what they show
// of its noise is the least that there is.
constexpr double noises = 2.0;
// A probe that lost so much of itself says nothing: it is 0.01 on a quiet machine of two cores and 0.5 and
// more beside two busy processes, where the same memory read 3 to 5 GB/s instead of 36.
constexpr double unsteady = 0.25;

// 0: not measured.
struct ProbedRate {
  double gb_per_s = 0.0;
  double spread = 0.0;  // share of it by which its repeats lay apart

  double noise() const { return gb_per_s * spread; }
};

class Comparison {
 public:
  // A field that one side does not know says nothing: profiles of older builds lack some.
  void text(const char* field, const std::string& then, const std::string& now, Rung rung) {
    if (then == now || then.empty()) return;
    add(field, then, now.empty() ? not_known : now, rung);
  }
  void count(const char* field, std::int64_t then, std::int64_t now, Rung rung) {
    if (then != now) add(field, std::to_string(then), std::to_string(now), rung);
  }
  void bytes(const char* field, std::int64_t then, std::int64_t now, Rung rung) {
    const auto larger = static_cast<double>(std::max(then, now));
    if (then == 0 || std::abs(static_cast<double>(then - now)) <= same_memory * larger) return;
    add(field, value_text("device_bytes", static_cast<double>(then)),
        value_text("device_bytes", static_cast<double>(now)), rung);
  }
  void rate(const char* field, const ProbedRate& then, const ProbedRate& now, Rung rung) {
    if (then.gb_per_s <= 0.0 || now.gb_per_s <= 0.0) return;
    if (std::max(then.spread, now.spread) >= unsteady) return;
    const double apart = std::abs(then.gb_per_s - now.gb_per_s);
    if (apart <= same_rate * std::max(then.gb_per_s, now.gb_per_s)) return;
    if (apart <= noises * (then.noise() + now.noise())) return;
    add(field, fmt::format("{:.0f} GB/s", then.gb_per_s), fmt::format("{:.0f} GB/s", now.gb_per_s), rung);
  }
  void watts(const char* field, double then, double now, Rung rung) {
    if (then == 0.0 || std::abs(then - now) <= same_watts) return;
    add(field, fmt::format("{:.0f} W", then), now == 0.0 ? not_known : fmt::format("{:.0f} W", now), rung);
  }

  Staleness result() {
    std::ranges::stable_sort(staleness_.differences, std::ranges::greater{}, &FieldDifference::rung);
    if (!staleness_.differences.empty()) staleness_.rung = staleness_.differences.front().rung;
    return std::move(staleness_);
  }

 private:
  void add(const char* field, std::string then, std::string now, Rung rung) {
    staleness_.differences.push_back(
        {.field = field, .then = std::move(then), .now = std::move(now), .rung = rung});
  }
  Staleness staleness_;
};

std::string capitalized(std::string_view text) {
  std::string words(text);
  if (!words.empty() && words.front() >= 'a' && words.front() <= 'z') words.front() -= 'a' - 'A';
  return words;
}

}  // namespace

std::string_view name_of(Rung rung) {
  switch (rung) {
    case Rung::same_box:
      return "same box";
    case Rung::other_rate:
      return "other rate";
    case Rung::other_software:
      return "other software";
    case Rung::other_size:
      return "other size";
    case Rung::other_device:
      return "other device";
    case Rung::other_model:
      return "other model";
  }
  return "?";
}

std::string_view trust_text(Rung rung) {
  switch (rung) {
    case Rung::same_box:
      return "choice and numbers hold as they were measured";
    case Rung::other_rate:
      return "the same parts, but memory or link move bytes at another rate now: the numbers have to be "
             "checked, and 'moetune ci' does that";
    case Rung::other_software:
      return "the choice probably holds, the numbers have to be checked: 'moetune ci' does";
    case Rung::other_size:
      return "a starting point for a search here; neither the numbers nor the choice between near ones carry "
             "over";
    case Rung::other_device:
      return "no more than a first guess: nothing in it was measured on such a device";
    case Rung::other_model:
      return "nothing in it speaks of this model";
  }
  return "?";
}

namespace {

// The same where the configuration was just measured again.
std::string_view trust_text_of_check(Rung rung) {
  switch (rung) {
    case Rung::other_rate:
      return "so says a short probe, which has no part in the verdict: that rests on the times of the "
             "configurations alone";
    case Rung::other_software:
      return "the choice probably holds, and this check measured its numbers again";
    default:
      return trust_text(rung);
  }
}

}  // namespace

bool Staleness::has(std::string_view field) const {
  return std::ranges::find(differences, field, &FieldDifference::field) != differences.end();
}

std::string Staleness::differences_text(Rung least) const {
  std::string text;
  for (const FieldDifference& difference : differences)
    if (difference.rung >= least)
      text += fmt::format("{}{} {} then, {} now", text.empty() ? "" : "; ", difference.field, difference.then,
                          difference.now);
  return text;
}

std::string Staleness::words(Asker asker) const {
  const std::string what =
      capitalized(name_of(rung)) + (differences.empty() ? "" : " (" + differences_text() + ")");
  return fmt::format("{}: {}.", what, asker == Asker::check ? trust_text_of_check(rung) : trust_text(rung));
}

Staleness staleness_of(const LaunchProfile& profile, const PresentBox& here) {
  const HardwareFingerprint& then = profile.hardware;
  const HardwareFingerprint& now = here.hardware;
  Comparison compare;
  if (!here.model_hash.empty())
    compare.text("model_hash", profile.model_hash, here.model_hash, Rung::other_model);

  compare.text("device", then.device, now.device, Rung::other_device);
  const bool is_gpu = then.gpu_count > 0 || now.gpu_count > 0;
  if (is_gpu) {
    compare.text("compute_capability", then.compute_capability, now.compute_capability, Rung::other_device);
    compare.count("gpu_count", then.gpu_count, now.gpu_count, Rung::other_size);
    compare.watts("power_limit_watts", then.power_limit_watts, now.power_limit_watts, Rung::other_size);
    compare.text("interconnect", then.interconnect, now.interconnect, Rung::other_size);
  }
  // The processor feeds a GPU; where there is none it is the device.
  compare.text("cpu_name", then.cpu_name, now.cpu_name, is_gpu ? Rung::other_size : Rung::other_device);
  compare.text("simd", then.simd, now.simd, is_gpu ? Rung::other_size : Rung::other_device);
  compare.count("cpu_cores", then.cpu_cores, now.cpu_cores, Rung::other_size);
  compare.bytes("device_bytes", then.device_bytes, now.device_bytes, Rung::other_size);

  if (is_gpu) {
    compare.text("driver", then.driver, now.driver, Rung::other_software);
    compare.text("cuda", then.cuda, now.cuda, Rung::other_software);
  }
  compare.rate("memory_gb_per_s", {then.memory_gb_per_s, then.memory_rate_spread},
               {now.memory_gb_per_s, now.memory_rate_spread}, Rung::other_rate);
  if (is_gpu) compare.rate("link_gb_per_s", {then.link_gb_per_s}, {now.link_gb_per_s}, Rung::other_rate);
  compare.text("build", then.build, now.build, Rung::other_software);
  compare.text("os", then.os, now.os, Rung::other_software);
  return compare.result();
}

}  // namespace moetune
