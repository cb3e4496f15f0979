#include "tuner/targets/synthetic_target.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "kernels/op_in_flight.h"
#include "tuner/checksum.h"
#include "tuner/counter_rng.h"
#include "tuner/durable_file.h"
#include "tuner/json_fields.h"
#include "tuner/targets/device_fault.h"
#include "tuner/worker_protocol.h"

namespace moetune {
namespace {

struct Slower {
  Configuration when;
  double factor = 1.0;
};

struct Times {
  bool timing_only = false;
  bool recording_only = false;
  std::vector<Slower> slower;
  double mood = 0.0;
  Configuration slow_in_search;
  double search_factor = 1.0;
};

bool matches(const Configuration& when, const Configuration& configuration) {
  for (const auto& [name, value] : when.values) {
    const auto found = configuration.values.find(name);
    if (found == configuration.values.end() || found->second != value) return false;
  }
  return true;
}

struct Failure {
  Configuration when;
  std::string how;
  std::string once;
  std::string pid_file;
};

// A number in [0, 1) that belongs to a text: what a knob nobody modelled does to the result.
double share_of(std::string_view text) { return static_cast<double>(crc32(text)) * 0x1p-32; }

double number_or(const Configuration& configuration, const std::string& name, double otherwise) {
  const auto found = configuration.values.find(name);
  return found == configuration.values.end() ? otherwise : std::strtod(found->second.c_str(), nullptr);
}

// Bytes per weight and what the format costs in accuracy (nats).
struct Format {
  double bytes;
  double kl;
};
Format format_of(const Configuration& configuration) {
  static const std::map<std::string, Format> formats{{"checkpoint", {2.0, 0.0}}, {"bf16", {2.0, 0.0}},
                                                     {"fp8", {1.0, 0.003}},      {"int8", {1.0, 0.0008}},
                                                     {"int4", {0.55, 0.016}},    {"int4_g32", {0.6, 0.013}}};
  const auto value = configuration.values.find("expert_quant");
  const auto found = value == configuration.values.end() ? formats.end() : formats.find(value->second);
  return found == formats.end() ? Format{2.0, 0.0} : found->second;
}

Metrics metrics_of(const Configuration& configuration, std::uint64_t seed, const Times& times) {
  const CounterRng noise(seed, RngStage::trial_seed, crc32(configuration.key()));
  const double native_top_k = 8.0;
  const double top_k = number_or(configuration, "top_k", native_top_k);
  const double cache = number_or(configuration, "expert_cache", 1.0);
  const Format format = format_of(configuration);

  double rest = 1.0;
  for (const auto& [name, value] : configuration.values)
    if (name != "top_k" && name != "expert_cache" && name != "expert_quant")
      rest *= 0.9 + 0.2 * share_of(name + "=" + value);

  const double expert_ms = 0.4 * top_k * format.bytes;
  const double miss_ms = 0.8 * top_k * format.bytes * (1.0 - cache);
  double factor = 1.0 + times.mood * CounterRng(seed, RngStage::synthetic_mood).uniform(0);
  if (!times.timing_only && matches(times.slow_in_search, configuration)) factor *= times.search_factor;
  for (const Slower& slower : times.slower)
    if (matches(slower.when, configuration)) factor *= slower.factor;
  const double tpot_ms =
      (1.5 + expert_ms + miss_ms) * rest * factor * (1.0 + 0.01 * (noise.uniform(0) - 0.5));
  const double dropped = std::max(native_top_k - top_k, 0.0);
  const double kl = 0.006 * dropped * dropped + format.kl + 1e-5 * noise.uniform(1);

  const auto timed = [](double median) {
    return Measurement{.value = median,
                       .low = median * 0.99,
                       .high = median * 1.012,
                       .p99 = median * 1.1,
                       .n = 40,
                       .origin = Origin::measured,
                       .stopped = "interval narrow"};
  };
  const auto exact = [](double value) {
    return Measurement{
        .value = value, .low = {}, .high = {}, .p99 = {}, .n = 1, .origin = Origin::measured, .stopped = ""};
  };
  Metrics metrics;
  if (times.recording_only) {
    metrics["tax_token_ms"] = timed(tpot_ms);
    metrics["tax_share"] = timed(miss_ms / (1.5 + expert_ms + miss_ms));
    metrics["tax_expert_loading_ms"] = timed(tpot_ms * metrics["tax_share"].value);
    metrics["tax_compute_ms"] = timed(tpot_ms - metrics["tax_expert_loading_ms"].value);
    return metrics;
  }
  metrics["tpot_ms"] = timed(tpot_ms);
  metrics["ttft_ms"] = timed(30.0 * tpot_ms);
  metrics["tokens_per_s"] = timed(1000.0 / tpot_ms);
  if (times.timing_only) return metrics;
  metrics["kl_mean"] = {.value = kl,
                        .low = kl * 0.95,
                        .high = kl * 1.05,
                        .p99 = {},
                        .n = 4096,
                        .origin = Origin::measured,
                        .stopped = "all positions"};
  metrics["top1_agreement"] = {.value = 1.0 - 2.0 * std::min(kl, 0.4),
                               .low = {},
                               .high = {},
                               .p99 = {},
                               .n = 4096,
                               .origin = Origin::measured,
                               .stopped = ""};
  metrics["device_bytes"] = exact(std::floor(1e6 * (4.0 + 20.0 * format.bytes * cache)));
  return metrics;
}

[[noreturn]] void hang() {
  const OpInFlight in_flight("SyntheticHang");
  while (true) ::pause();
}

// Until the tuner notices; a machine without a watchdog must not be brought down by it.
[[noreturn]] void fill_memory() {
  constexpr std::size_t block_bytes = std::size_t{64} << 20;
  constexpr std::size_t most_blocks = 64;
  std::vector<std::string> blocks;
  while (blocks.size() < most_blocks) blocks.emplace_back(block_bytes, 'x');
  hang();
}

// A process of the same group that would outlive the worker if only the worker were killed.
void start_orphan(const std::string& pid_file) {
  std::array<char*, 3> arguments{const_cast<char*>("sleep"), const_cast<char*>("600"), nullptr};
  pid_t pid = -1;
  if (::posix_spawnp(&pid, "sleep", nullptr, nullptr, arguments.data(), environ) != 0)
    throw std::runtime_error("cannot start sleep");
  write_file_atomically(pid_file, std::to_string(pid));
}

class SyntheticTarget : public Target {
 public:
  SyntheticTarget(std::chrono::duration<double, std::milli> delay, std::string audit, Times times,
                  std::vector<Failure> failures)
      : delay_(delay), audit_(std::move(audit)), times_(std::move(times)), failures_(std::move(failures)) {}

  TargetResult measure(const Configuration& configuration, std::uint64_t seed,
                       const std::function<void(const std::string&)>& progress) override {
    if (progress) progress("synthetic: measuring");
    const std::string line = configuration.key() + " " + std::to_string(::getpid()) + "\n";
    if (!audit_.empty() && !write_all(open_file(audit_, O_WRONLY | O_CREAT | O_APPEND).number(), line))
      throw std::runtime_error(audit_ + ": cannot be written: " + error_text(errno));
    std::this_thread::sleep_for(delay_);
    TargetResult result{
        .outcome = Outcome::ok, .reason = "", .metrics = metrics_of(configuration, seed, times_)};
    for (const Failure& failure : failures_)
      if (applies(failure, configuration)) fail(failure, result);
    return result;
  }

 private:
  static bool applies(const Failure& failure, const Configuration& configuration) {
    if (!matches(failure.when, configuration)) return false;
    if (failure.once.empty()) return true;
    return open_file(failure.once, O_WRONLY | O_CREAT | O_EXCL).is_open();
  }

  static void fail(const Failure& failure, TargetResult& result) {
    const std::string& how = failure.how;
    if (how == "crash") {
      ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's own handler would turn the crash into a report and an exit
      ::raise(SIGSEGV);
    }
    if (how == "kill") ::raise(SIGKILL);
    if (how == "exit") {
      std::fprintf(stderr, "synthetic: giving up\n");
      std::_Exit(3);
    }
    if (how == "hang") hang();
    if (how == "fill_memory") fill_memory();
    if (how.starts_with("device_")) fault_on_device(how);
    if (how == "out_of_memory") throw std::bad_alloc();
    if (how == "throw") throw std::runtime_error("synthetic: thrown on purpose");
    if (how == "garbage") write_all(worker_output_descriptor, "\x01\xff{\"result\": nonsense\n");
    if (how == "print") {
      std::printf("{\"result\": \"printed by the target\"}\n");
      std::fflush(stdout);
    }
    if (how == "wrong_output")
      result = {.outcome = Outcome::wrong_output, .reason = "synthetic: logits differ", .metrics = {}};
    if (how == "infeasible")
      result = {.outcome = Outcome::infeasible, .reason = "synthetic: cannot run here", .metrics = {}};
    if (how == "not_finite") result.metrics["tpot_ms"].value = std::numeric_limits<double>::quiet_NaN();
    if (how == "orphan") {
      start_orphan(failure.pid_file);
      ::raise(SIGKILL);
    }
  }

  std::chrono::duration<double, std::milli> delay_;
  std::string audit_;
  Times times_;
  std::vector<Failure> failures_;
};

void insist_on_one_of(const std::string& text, const std::vector<std::string_view>& accepted,
                      const std::string& where) {
  std::string names;
  for (const std::string_view name : accepted) {
    if (text == name) return;
    names.append(names.empty() ? "" : ", ").append(name);
  }
  throw InputError(where, shown(text), names);
}

}  // namespace

std::unique_ptr<Target> make_synthetic_target(const nlohmann::json& settings) {
  const JsonFields fields(settings, "synthetic target");
  fields.only({"delay_ms", "audit", "setup", "fail", "timing_only", "recording_only", "records_apart", "mood",
               "slower", "search_factor"});
  const double delay_ms = fields.has("delay_ms") ? fields.number("delay_ms") : 0.0;
  Times times;
  times.timing_only = fields.has("timing_only") && fields.flag("timing_only");
  times.recording_only = fields.has("recording_only") && fields.flag("recording_only");
  if (fields.has("mood")) times.mood = fields.number("mood");
  if (fields.has("search_factor")) {
    const JsonFields slow(fields.object("search_factor"), fields.place("search_factor"));
    slow.only({"when", "factor"});
    times.slow_in_search = configuration_from_json(slow.object("when"), slow.place("when"));
    times.search_factor = slow.number("factor");
  }
  if (fields.has("slower")) {
    for (const nlohmann::json& item : fields.array("slower")) {
      const JsonFields slower(item, fields.place("slower"));
      slower.only({"when", "factor"});
      times.slower.push_back(
          {configuration_from_json(slower.object("when"), slower.place("when")), slower.number("factor")});
    }
  }
  std::vector<Failure> failures;
  if (fields.has("fail")) {
    for (const nlohmann::json& item : fields.array("fail")) {
      const JsonFields failure(item, fields.place("fail"));
      failure.only({"when", "how", "once", "pid_file"});
      failures.push_back({.when = configuration_from_json(failure.object("when"), failure.place("when")),
                          .how = failure.text("how"),
                          .once = failure.text_or("once", ""),
                          .pid_file = failure.text_or("pid_file", "")});
      std::vector<std::string_view> ways{"crash",         "kill",   "exit",      "hang",  "fill_memory",
                                         "out_of_memory", "throw",  "garbage",   "print", "wrong_output",
                                         "not_finite",    "orphan", "infeasible"};
      for (const std::string_view way : device_faults()) ways.push_back(way);
      insist_on_one_of(failures.back().how, ways, failure.place("how"));
    }
  }
  const std::string setup = fields.text_or("setup", "");
  insist_on_one_of(setup, {"", "hang", "kill", "throw", "bad_input"}, fields.place("setup"));
  if (setup == "hang") hang();
  if (setup == "kill") ::raise(SIGKILL);
  if (setup == "throw") throw std::runtime_error("synthetic: no model");
  if (setup == "bad_input") throw InputError("synthetic.json: model", "'nowhere'", "a model that is there");
  return std::make_unique<SyntheticTarget>(std::chrono::duration<double, std::milli>(delay_ms),
                                           fields.text_or("audit", ""), std::move(times),
                                           std::move(failures));
}

}  // namespace moetune
