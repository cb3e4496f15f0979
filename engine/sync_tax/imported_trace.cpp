#include "engine/sync_tax/imported_trace.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/sync_tax/kernel_names.h"

namespace moetune {
namespace {

constexpr std::int64_t smallest_weight_bytes = 64 << 10;

// What runs on the device itself.
bool is_on_device(const StepInterval& interval) { return interval.activity != Activity::host_wait; }

}  // namespace

void TraceBuilder::add(std::int64_t device, std::int64_t process, const OnStream& one) {
  devices_[device].push_back(one);
  processes_[device][process] = true;
}

void TraceBuilder::kernel(std::int64_t device, std::int64_t process, std::string_view name,
                          std::int64_t begin_ns, std::int64_t end_ns, std::int64_t stream,
                          std::optional<KernelClass> told) {
  const auto known = told ? told : class_of_kernel(name);
  KernelClass is = known.value_or(KernelClass{});
  if (is.activity == Activity::host_wait) is.activity = Activity::compute;
  const auto length_ns = static_cast<double>(end_ns - begin_ns);
  if (!known) trace_.unmatched_ns[std::string(name)] += length_ns;
  trace_.kernel_ns += length_ns;
  ++trace_.kernels;
  add(device, process, {{begin_ns, end_ns, is.activity, is.row, -1}, stream});
}

void TraceBuilder::copy(std::int64_t device, std::int64_t process, CopyKind kind, std::int64_t bytes,
                        std::int64_t begin_ns, std::int64_t end_ns, std::int64_t stream,
                        std::optional<KernelClass> told) {
  const bool crosses = kind == CopyKind::to_device || kind == CopyKind::to_host;
  KernelClass is = told.value_or(KernelClass{});
  if (kind == CopyKind::between_devices) is = {Activity::collective, Row::other};
  if (crosses) {
    const bool is_of_weights = told ? told->activity == Activity::expert_copy
                                    : kind == CopyKind::to_device && bytes >= smallest_weight_bytes;
    is = {is_of_weights ? Activity::expert_copy : Activity::host_wait, Row::other};
  } else if (is.activity == Activity::host_wait) {
    is.activity = Activity::compute;  // on the device: it runs
  }
  ++trace_.copies;
  add(device, process, {{begin_ns, end_ns, is.activity, is.row, -1}, stream});
}

void TraceBuilder::fill(std::int64_t device, std::int64_t process, std::int64_t begin_ns, std::int64_t end_ns,
                        std::int64_t stream, std::optional<KernelClass> told) {
  KernelClass is = told.value_or(KernelClass{});
  if (is.activity == Activity::host_wait) is.activity = Activity::compute;
  add(device, process, {{begin_ns, end_ns, is.activity, is.row, -1}, stream});
}

void TraceBuilder::host_call(std::int64_t process, std::int64_t thread, std::string_view name,
                             std::int64_t begin_ns, std::int64_t end_ns) {
  const bool waits = is_wait(name);
  if (!waits && !is_launch(name)) return;
  HostThread& host = threads_[{process, thread}];
  host.process = process;
  host.calls.push_back({begin_ns, end_ns, waits});
}

ImportedTrace TraceBuilder::finish() {
  for (auto& [device, all] : devices_) {
    std::ranges::stable_sort(all, {}, [](const OnStream& one) { return one.interval.begin_ns; });
    std::vector<StepInterval>& intervals = trace_.devices[device];
    std::vector<std::int64_t> begins_ns;
    std::vector<std::int64_t> ends_ns;
    StreamOrder order;
    for (OnStream& one : all) {
      begins_ns.push_back(one.interval.begin_ns);
      one.interval.begin_ns = order.begin_of(one.stream, one.interval.begin_ns, one.interval.end_ns);
      intervals.push_back(one.interval);
      ends_ns.push_back(one.interval.end_ns);
    }
    std::ranges::sort(ends_ns);
    for (auto& [key, host] : threads_) {
      if (!processes_[device].contains(host.process)) continue;
      std::ranges::stable_sort(host.calls, {}, &HostCall::begin_ns);
      std::ranges::copy(held_up(host.calls, begins_ns, ends_ns), std::back_inserter(intervals));
    }
  }
  devices_.clear();
  threads_.clear();
  return std::move(trace_);
}

std::vector<ImportedAccount> imported_accounts(const ImportedTrace& trace) {
  std::vector<ImportedAccount> accounts;
  for (const auto& [device, intervals] : trace.devices) {
    ImportedAccount one{.device = device, .account = {}};
    std::vector<StepInterval> own;
    std::ranges::copy_if(intervals, std::back_inserter(own), is_on_device);
    if (own.empty()) continue;
    std::ranges::sort(own, {}, &StepInterval::begin_ns);
    std::vector<StepInterval> all = intervals;
    std::ranges::sort(all, {}, &StepInterval::begin_ns);
    std::int64_t begin_ns = own.front().begin_ns;
    std::int64_t busy_until_ns = begin_ns;
    std::size_t next = 0;  // first of `all` that no earlier stretch has used up
    const auto close = [&] {
      // Intervals of this stretch: those that begin before its end. Host waits may reach in from before.
      std::vector<StepInterval> inside;
      for (std::size_t i = next; i < all.size() && all[i].begin_ns < busy_until_ns; ++i) {
        if (all[i].end_ns >= begin_ns) inside.push_back(all[i]);
        if (all[i].end_ns <= busy_until_ns && i == next) ++next;
      }
      one.account += account(begin_ns, busy_until_ns, inside);
    };
    for (const StepInterval& interval : own) {
      if (interval.begin_ns - busy_until_ns > kIdleNs) {
        close();
        one.idle_ns += interval.begin_ns - busy_until_ns;
        begin_ns = interval.begin_ns;
      }
      busy_until_ns = std::max(busy_until_ns, interval.end_ns);
    }
    close();
    accounts.push_back(one);
  }
  return accounts;
}

}  // namespace moetune
