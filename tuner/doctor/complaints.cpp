#include "tuner/doctor/complaints.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include <fmt/format.h>

namespace moetune {
namespace {

// Those of the findings, in the order in which they are asked for.
std::vector<std::string> found(const std::vector<Finding>& findings,
                               std::initializer_list<std::string_view> ids) {
  std::vector<std::string> causes;
  for (const std::string_view id : ids)
    for (const Finding& finding : findings)
      if (finding.id == id) causes.push_back(fmt::format("{}: {}", finding.what, finding.consequence));
  return causes;
}

Answer jittery_p99(const std::vector<Finding>& findings) {
  return {"p99 jumps, on one card",
          found(findings, {"gpu_throttled", "gpu_in_use", "swapping", "cpu_quota", "cpu_busy", "gpu_shared",
                           "ecc_errors", "swap_used", "gpu_power_capped"}),
          "moetune tax shows the slowest 1 % of tokens beside the typical one: the part that grew is the "
          "cause (misses of the expert cache, "
          "page faults, cores taken away)"};
}

// The first two cards without NVLink between them; empty: all have it.
std::string without_nvlink(const BoxFacts& box) {
  bool is_known = false;
  for (const GpuState& gpu : box.gpus)
    for (const GpuPeer& peer : gpu.peers) {
      is_known = is_known || peer.nvlink.has_value();
      if (peer.nvlink == false)
        return fmt::format("no NVLink between {} and {}{}", gpu.bus_id, peer.bus_id,
                           peer.path.empty() ? "" : fmt::format(" ({} over PCIe)", peer.path));
    }
  const bool has_links =
      std::ranges::all_of(box.gpus, [](const GpuState& gpu) { return gpu.nvlinks.value_or(0) > 0; });
  return is_known || has_links ? "" : "no NVLink between the cards";
}

Answer slower_with_two_cards(const BoxFacts& box, const std::vector<Finding>& findings) {
  Answer answer{"throughput falls with tensor parallelism 2",
                found(findings, {"nccl_missing", "pcie_narrow", "pcie_slow", "numa_far_from_gpu"}),
                "two all-reduces per layer have to cost less than half of the layer's weights take to read: "
                "with 7.4 us (H200, NVLink, NCCL 2.28) "
                "that is 127 MB per layer; smaller layers want one card each"};
  if (box.gpus.size() < 2)
    answer.next = box.gpus.empty() ? "this box has no GPU" : "this box has a single GPU";
  else if (const std::string pair = without_nvlink(box); !pair.empty())
    answer.causes.insert(answer.causes.begin(),
                         pair + ": every all-reduce goes over PCIe or through the host, twice per layer");
  return answer;
}

Answer slow_first_token(const std::vector<Finding>& findings) {
  return {"seconds to the first token",
          found(findings, {"swapping", "waits_for_copies", "waits_in_turns", "pcie_narrow", "pcie_slow",
                           "link_below_its_rate", "numa_far_from_gpu", "gpu_throttled", "build_without_cuda",
                           "gpu_unusable", "swap_used", "cpu_quota"}),
          "a prompt uses nearly every expert once: what is not resident is copied for it. moetune tax shows "
          "the prompt apart; "
          "prefill_chunk and prefix_cache act on it"};
}

Answer full_but_idle(const BoxFacts& box, const std::vector<Finding>& findings) {
  Answer answer{"memory is full, but the GPU idles",
                found(findings, {"waits_for_copies", "waits_in_turns", "waits_for_launches"}),
                "run doctor while the server works: it needs the card's utilisation and the link's rate of "
                "that moment"};
  const bool looked = std::ranges::any_of(box.gpus, [&](const GpuState& gpu) {
    return bottleneck_of(box, gpu) != Bottleneck::unknown && gpu.busy_percent.value_or(0) > 0;
  });
  if (box.gpus.empty()) answer.next = "this box has no GPU";
  if (looked && answer.causes.empty()) answer.next = "not now: kernels run at least 70 % of the time";
  return answer;
}

}  // namespace

std::vector<Answer> answers_of(const BoxFacts& box, const std::vector<Finding>& findings) {
  return {jittery_p99(findings), slower_with_two_cards(box, findings), slow_first_token(findings),
          full_but_idle(box, findings)};
}

}  // namespace moetune
