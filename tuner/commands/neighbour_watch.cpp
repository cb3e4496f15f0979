#include "tuner/commands/neighbour_watch.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "tuner/commands/box_facts_of.h"
#include "tuner/doctor/bus_id.h"
#include "tuner/doctor/host_facts.h"
#include "tuner/metric_facts.h"

namespace moetune {
namespace {

constexpr std::chrono::seconds between_looks(2);
constexpr std::chrono::milliseconds between_settling_looks(500);
constexpr int most_looks = 5;

std::vector<GpuProcess> processes_on(const BoxFacts& box, const std::string& bus_id) {
  const auto gpu = std::ranges::find(box.gpus, short_bus_id(bus_id),
                                     [](const GpuState& each) { return short_bus_id(each.bus_id); });
  return gpu == box.gpus.end() ? std::vector<GpuProcess>() : gpu->processes;
}

}  // namespace

NeighbourWatch::NeighbourWatch(const Study& study)
    : is_made_up_(study.made_up),
      runs_on_gpu_(study.device == DeviceKind::cuda),
      gpu_bus_id_(study.gpu_bus_id),
      before_(study.made_up ? BoxFacts() : look_at_box(false)),
      swapped_pages_before_(swapped_pages("/")),
      begin_(std::chrono::steady_clock::now()),
      cpus_(::getpid(), study.hardware.cpu_cores) {
  look_now();
}

void NeighbourWatch::look_now() {
  last_look_ = std::chrono::steady_clock::now();
  if (is_made_up_) return;
  if (const auto snapshot = look_at_cpus()) cpus_.add(*snapshot);
}

void NeighbourWatch::look() {
  if (std::chrono::steady_clock::now() - last_look_ >= between_looks) look_now();
}

std::vector<std::string> NeighbourWatch::what_spoils() const {
  std::vector<std::string> texts;
  if (is_made_up_) return texts;
  for (const Finding& finding : findings_for(before_, runs_on_gpu_))
    if (finding.severity == Severity::spoils) texts.push_back(finding.what);
  return texts;
}

std::vector<std::string> NeighbourWatch::on_processors() {
  look_now();
  return cpus_.disturbances();
}

std::vector<std::string> NeighbourWatch::newcomers_on_gpu() const {
  if (is_made_up_ || gpu_bus_id_.empty()) return {};
  return newcomers(before_, look_at_box(false), gpu_bus_id_);
}

std::vector<std::string> NeighbourWatch::arisen_since() const {
  if (is_made_up_) return {};
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  BoxFacts after;
  // What a GPU did in the last second was ours, so that its rate of work says something only after a while.
  for (int looks = 0; looks < most_looks; ++looks) {
    if (looks > 0) std::this_thread::sleep_for(between_settling_looks);
    after = look_at_box(false);
    if (arisen(before_, after, runs_on_gpu_, false).empty()) break;
  }
  if (const auto pages = swapped_pages("/"); pages && swapped_pages_before_ && seconds > 0.0)
    after.swapping_mb_per_s = swap_rate(*pages - *swapped_pages_before_, seconds);
  return arisen(before_, after, runs_on_gpu_, !newcomers(before_, after, gpu_bus_id_).empty());
}

std::vector<std::string> arisen(const BoxFacts& before, const BoxFacts& after, bool runs_on_gpu,
                                bool newcomers_are_named) {
  std::set<std::string> known;
  for (const Finding& finding : findings_for(before, runs_on_gpu))
    if (finding.severity == Severity::spoils) known.insert(finding.id);
  std::vector<std::string> texts;
  for (const Finding& finding : findings_for(after, runs_on_gpu))
    if (finding.severity == Severity::spoils && !known.contains(finding.id) &&
        !(newcomers_are_named && finding.id == "gpu_in_use"))
      texts.push_back(finding.what);
  return texts;
}

std::vector<std::string> newcomers(const BoxFacts& before, const BoxFacts& after, const std::string& bus_id) {
  std::vector<std::string> names;
  const std::vector<GpuProcess> known = processes_on(before, bus_id);
  for (const GpuProcess& process : processes_on(after, bus_id)) {
    if (process.is_ours || std::ranges::find(known, process.pid, &GpuProcess::pid) != known.end()) continue;
    names.push_back(
        fmt::format("{} on the GPU (process {}, {})",
                    process.name.empty() ? "a process that cannot be seen from here" : process.name,
                    process.pid, value_text("device_bytes", static_cast<double>(process.bytes))));
  }
  return names;
}

}  // namespace moetune
