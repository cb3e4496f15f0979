#include "tuner/doctor/findings.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tuner/counted.h"

namespace moetune {
namespace {

constexpr double gib = 1073741824.0;

double in_gib(std::int64_t bytes) { return static_cast<double>(bytes) / gib; }

using Findings = std::vector<Finding>;

// Versions as "13.0": does a compare as older than b?
bool is_older(const std::string& a, const std::string& b) {
  const auto parts = [](const std::string& text) {
    char* rest = nullptr;
    const long major = std::strtol(text.c_str(), &rest, 10);
    const long minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
    return std::pair(major, minor);
  };
  return parts(a) < parts(b);
}

void add_software(const BoxFacts& box, Findings& findings) {
  if (!box.gpu_problem.empty())
    findings.push_back(
        {"gpu_unusable", Severity::warning, "a GPU cannot be used: " + box.gpu_problem,
         "everything runs on the processor",
         "install the driver, give the container the GPU (--gpus all), then run doctor again"});
  if (!box.build_has_cuda && !box.gpus.empty())
    findings.push_back({"build_without_cuda", Severity::warning,
                        "this build has no GPU code, but there is a GPU",
                        "tune and measure describe the processor, not the card",
                        "install a CUDA toolkit (12.4 or later) and build again"});
  if (!box.build_cuda.empty() && !box.driver_cuda.empty() && is_older(box.driver_cuda, box.build_cuda))
    findings.push_back({"driver_older_than_cuda", Severity::warning,
                        fmt::format("the driver {} runs CUDA {}, this build was made with {}",
                                    box.driver_version, box.driver_cuda, box.build_cuda),
                        "kernels fail to load, or are compiled again at every start",
                        "update the driver, or build with an older toolkit"});
  if (box.gpus.size() > 1 && box.nccl_version.empty())
    findings.push_back(
        {"nccl_missing", Severity::warning, fmt::format("{} GPUs and no NCCL", box.gpus.size()),
         "tensor parallelism cannot run, or falls back to copies through the host", "install libnccl2"});
}

void add_link(const GpuState& gpu, const std::string& which, Findings& findings) {
  const bool is_narrow = gpu.pcie_width && gpu.most_pcie_width && *gpu.pcie_width < *gpu.most_pcie_width;
  if (is_narrow)
    findings.push_back(
        {"pcie_narrow", Severity::warning,
         fmt::format("{}: PCIe width x{}, x{} is possible", which, *gpu.pcie_width, *gpu.most_pcie_width),
         fmt::format("experts that are not resident arrive at {:.0f} % of the rate",
                     100.0 * *gpu.pcie_width / *gpu.most_pcie_width),
         "another slot, a riser less, or the lanes' setting in the firmware"});
  // An idle card runs its link slowly on purpose: only a busy one says something.
  const bool is_slow =
      gpu.pcie_generation && gpu.most_pcie_generation && *gpu.pcie_generation < *gpu.most_pcie_generation;
  if (is_slow && gpu.busy_percent.value_or(0) >= kForeignBusyPercent)
    findings.push_back({"pcie_slow", Severity::warning,
                        fmt::format("{}: PCIe generation {} under load, {} is possible", which,
                                    *gpu.pcie_generation, *gpu.most_pcie_generation),
                        "each generation less halves the rate at which experts arrive",
                        "the slot's setting in the firmware; the processor's lanes"});
}

void add_processes(const GpuState& gpu, const std::string& which, Findings& findings) {
  std::vector<std::string> others;
  std::int64_t bytes = 0;
  bool has_ours = false;
  for (const GpuProcess& process : gpu.processes) {
    has_ours = has_ours || process.is_ours;
    if (process.is_ours) continue;
    others.push_back(process.name.empty() ? fmt::format("pid {}", process.pid)
                                          : fmt::format("{} (pid {})", process.name, process.pid));
    bytes += process.bytes;
  }
  const bool works = !has_ours && gpu.busy_percent.value_or(0) >= kForeignBusyPercent;
  if (works)
    findings.push_back({"gpu_in_use", Severity::spoils,
                        fmt::format("{}: busy {} % of the time{}", which, *gpu.busy_percent,
                                    others.empty() ? ", with what does not show here"
                                                   : fmt::format(", with {}", fmt::join(others, ", "))),
                        "times depend on what the others do: p99 first, then the median",
                        "stop them, or take another GPU (CUDA_VISIBLE_DEVICES)"});
  else if (!others.empty())
    findings.push_back({"gpu_shared", Severity::warning,
                        fmt::format("{}: {} hold{} {:.1f} GiB", which, fmt::join(others, ", "),
                                    others.size() == 1 ? "s" : "", in_gib(bytes)),
                        "less memory for experts, and times that change when they wake up",
                        "stop them, or give each its own GPU"});
}

void add_gpu(const GpuState& gpu, Findings& findings) {
  const std::string which = fmt::format("{} {}", gpu.name, gpu.bus_id);
  const auto is = [&](const char* reason) {
    return std::ranges::find(gpu.throttle_reasons, reason) != gpu.throttle_reasons.end();
  };
  if (is("hw_slowdown") || is("hw_thermal") || is("hw_power_brake") || is("sw_thermal"))
    findings.push_back(
        {"gpu_throttled", Severity::spoils,
         fmt::format("{}: clocks are held down ({}){}", which, fmt::join(gpu.throttle_reasons, ", "),
                     gpu.celsius ? fmt::format(" at {:.0f} C", *gpu.celsius) : ""),
         "every time measured now is that of a slower card",
         "airflow, power supply, fewer neighbours; wait until it has cooled down"});
  else if (is("power_cap"))
    findings.push_back({"gpu_power_capped", Severity::warning,
                        which + ": clocks are limited by the power cap",
                        "long prompts and large batches run slower than short ones suggest",
                        "nvidia-smi -q -d POWER; raise the limit if it was lowered"});
  if (gpu.uncorrected_errors.value_or(0) > 0)
    findings.push_back({"ecc_errors", Severity::warning,
                        fmt::format("{}: {} uncorrected memory errors", which, *gpu.uncorrected_errors),
                        "processes on it are stopped without warning; pages are retired",
                        "reset or replace the card"});
  if (gpu.ecc_enabled && !*gpu.ecc_enabled)
    findings.push_back({"ecc_off", Severity::remark, which + ": ECC is off",
                        "a flipped bit in a weight stays unnoticed", "nvidia-smi -e 1, then a reset"});
  add_link(gpu, which, findings);
  add_processes(gpu, which, findings);
}

void add_rates(const BoxFacts& box, Findings& findings) {
  if (box.pinned_gb_per_s && !box.gpus.empty() && box.gpus.front().pcie_width.value_or(0) > 0 &&
      box.gpus.front().most_pcie_generation) {
    // One direction, GB/s per lane, after encoding: generation 3 0.985, each one more doubles it. About 87 %
    // of it arrives.
    const double possible =
        0.985 * static_cast<double>(1 << std::max(0, *box.gpus.front().most_pcie_generation - 3)) *
        *box.gpus.front().pcie_width;
    if (*box.pinned_gb_per_s < 0.7 * possible)
      findings.push_back(
          {"link_below_its_rate", Severity::warning,
           fmt::format("pinned copies reach {:.1f} GB/s, {:.0f} % of the {:.0f} the link has",
                       *box.pinned_gb_per_s, 100.0 * *box.pinned_gb_per_s / possible, possible),
           "every expert that is not resident costs that much more",
           "memory of the card's own NUMA node; IOMMU in passthrough; no neighbour on the same switch"});
  }
  if (box.pinned_gb_per_s && box.pageable_gb_per_s && *box.pageable_gb_per_s < 0.5 * *box.pinned_gb_per_s)
    findings.push_back(
        {"pageable_slow", Severity::remark,
         fmt::format("copies from pageable memory reach {:.1f} GB/s, from pinned memory {:.1f}",
                     *box.pageable_gb_per_s, *box.pinned_gb_per_s),
         "a server that offloads without pinning pays for it with every expert",
         "pinned host memory for offloaded experts"});
}

void add_host(const BoxFacts& box, Findings& findings) {
  if (box.swapping_mb_per_s.value_or(0.0) > kSwappingMbPerS)
    findings.push_back({"swapping", Severity::spoils,
                        fmt::format("{:.0f} MB/s go to or come from swap", *box.swapping_mb_per_s),
                        "a page that is away comes at the speed of a disk; p99 says so first",
                        "free memory, or swapoff -a"});
  else if (box.swap_used_bytes.value_or(0) > 0)
    findings.push_back({"swap_used", Severity::warning,
                        fmt::format("{:.1f} GiB of swap are in use", in_gib(*box.swap_used_bytes)),
                        "what lies there is slow the first time it is touched",
                        "swapoff -a brings it back; a smaller model or expert_quant leaves room"});
  if (box.memory_kills.value_or(0) > 0)
    findings.push_back({"memory_kills", Severity::warning,
                        fmt::format("the kernel has killed {} for lack of memory",
                                    counted(*box.memory_kills, "process", "processes")),
                        "a server that restarts by itself looks like a slow one",
                        "a smaller model, expert_quant, or more memory; dmesg names who was killed"});
  if (box.quota_cores && *box.quota_cores < static_cast<double>(box.machine_cores))
    findings.push_back(
        {"cpu_quota", box.throttled_share.value_or(0.0) > 0.05 ? Severity::warning : Severity::remark,
         fmt::format("the control group grants {:.1f} of {} cores{}", *box.quota_cores, box.machine_cores,
                     box.throttled_share ? fmt::format(", and has stopped us in {:.0f} % of its periods",
                                                       100.0 * *box.throttled_share)
                                         : ""),
         "more threads than that are stopped for up to 100 ms at a time: a p99 of that size",
         "--threads at most the quota, or a larger quota"});
  if (box.load && box.usable_cores > 0 && *box.load > 1.5 * box.machine_cores)
    findings.push_back({"cpu_busy", Severity::warning,
                        fmt::format("{:.1f} tasks want {} cores", *box.load, box.machine_cores),
                        "cores are taken away in the middle of a token", "stop the others, or wait"});
  const bool spans_nodes = box.numa_nodes > 1 && box.our_numa_nodes.size() > 1;
  if (spans_nodes)
    findings.push_back({"numa_spread", Severity::remark,
                        fmt::format("{} memory nodes, and this process may run on {} of them", box.numa_nodes,
                                    box.our_numa_nodes.size()),
                        "reads of what lies on the other node cross the link between the processors",
                        "numactl --cpunodebind and --membind of one node"});
  for (const GpuState& gpu : box.gpus)
    if (gpu.numa_node && *gpu.numa_node >= 0 && box.numa_nodes > 1 &&
        std::ranges::find(box.our_numa_nodes, *gpu.numa_node) == box.our_numa_nodes.end())
      findings.push_back({"numa_far_from_gpu", Severity::warning,
                          fmt::format("{} {} is on memory node {}, this process on node{} {}", gpu.name,
                                      gpu.bus_id, *gpu.numa_node, box.our_numa_nodes.size() == 1 ? "" : "s",
                                      fmt::join(box.our_numa_nodes, ", ")),
                          "copies to the card cross the link between the processors",
                          fmt::format("numactl --cpunodebind={0} --membind={0}", *gpu.numa_node)});
}

void add_bottlenecks(const BoxFacts& box, Findings& findings) {
  for (const GpuState& gpu : box.gpus) {
    const std::string which = fmt::format("{} {}", gpu.name, gpu.bus_id);
    const auto seen = [&] {
      return fmt::format("{}: kernels run {} % of the time while the link carries {:.1f} of {:.1f} GB/s",
                         which, *gpu.busy_percent, *gpu.link_gb_per_s, *box.pinned_gb_per_s);
    };
    if (const Bottleneck found = bottleneck_of(box, gpu); found == Bottleneck::copies)
      findings.push_back(
          {"waits_for_copies", Severity::warning, seen(), "it waits for experts on their way from the host",
           "more of them resident (expert_cache), fewer bits (expert_quant), a better policy ('moetune "
           "trace')"});
    else if (found == Bottleneck::launches_or_synchronisation)
      findings.push_back(
          {"waits_for_launches", Severity::warning, seen(),
           "it waits for the host: launches, or answers the host waits for",
           "CUDA graphs, routing on the GPU, more sequences side by side; 'moetune tax --import' says "
           "which"});
    else if (found == Bottleneck::copies_in_turns)
      findings.push_back(
          {"waits_in_turns", Severity::warning, seen(),
           "copies of experts and waits for the host take turns: neither runs beside the other, or beside "
           "kernels",
           "prefetch and CUDA graphs let them overlap; 'moetune tax --import' says what is exposed"});
  }
}

}  // namespace

std::string name_of(Severity severity) {
  switch (severity) {
    case Severity::remark:
      return "remark";
    case Severity::warning:
      return "warning";
    case Severity::spoils:
      break;
  }
  return "spoils measurements";
}

Bottleneck bottleneck_of(const BoxFacts& box, const GpuState& gpu) {
  if (!gpu.busy_percent || !gpu.link_gb_per_s || box.pinned_gb_per_s.value_or(0.0) <= 0.0)
    return Bottleneck::unknown;
  // A card that holds next to nothing and does nothing is idle, not waiting.
  const double held = gpu.memory_bytes && gpu.used_bytes
                          ? static_cast<double>(*gpu.used_bytes) / static_cast<double>(*gpu.memory_bytes)
                          : 0.0;
  if (*gpu.busy_percent == 0 || held < 0.25 || *gpu.busy_percent >= kBusyPercent) return Bottleneck::none;
  const double link_share = *gpu.link_gb_per_s / *box.pinned_gb_per_s;
  if (link_share > kBusyLinkShare) return Bottleneck::copies;
  return link_share > kQuietLinkShare ? Bottleneck::copies_in_turns : Bottleneck::launches_or_synchronisation;
}

std::vector<Finding> findings_of(const BoxFacts& box) {
  Findings findings;
  add_software(box, findings);
  for (const GpuState& gpu : box.gpus) add_gpu(gpu, findings);
  add_rates(box, findings);
  add_host(box, findings);
  add_bottlenecks(box, findings);
  std::ranges::stable_sort(findings,
                           [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

}  // namespace moetune
