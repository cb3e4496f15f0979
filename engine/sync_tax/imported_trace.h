// What a profiler recorded of a server on GPUs, as intervals per device. Readers: nsys_reader.h,
// torch_reader.h. Start at TraceBuilder for how events become intervals, at imported_accounts() for what they
// come to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/sync_tax/account.h"
#include "engine/sync_tax/host_calls.h"
#include "engine/sync_tax/interval.h"
#include "engine/sync_tax/kernel_names.h"
#include "engine/sync_tax/stream_order.h"

namespace moetune {

struct ImportedTrace {
  std::map<std::int64_t, std::vector<StepInterval>>
      devices;                                 // by number; kernels, copies and what the host held up
  std::map<std::string, double> unmatched_ns;  // kernels of which no pattern is known: name -> time
  double kernel_ns = 0.0;                      // of all kernels
  std::int64_t kernels = 0;
  std::int64_t copies = 0;
};

enum class CopyKind : std::uint8_t { to_device, to_host, within_device, between_devices };

// Times that no profiler writes, or that would overflow sums, are refused by the readers.
inline constexpr std::int64_t kLatestNs = std::int64_t{1} << 60;

class TraceBuilder {
 public:
  // stream: kernels and copies of one run behind each other, however early they were launched. told: what the
  // trace itself says of it (range_names.h); without, kernels go by their names.
  void kernel(std::int64_t device, std::int64_t process, std::string_view name, std::int64_t begin_ns,
              std::int64_t end_ns, std::int64_t stream = StreamOrder::kUnknown,
              std::optional<KernelClass> told = std::nullopt);
  // From the host: 64 KiB and more are taken for weights on their way (expert loading), less for inputs
  // (synchronisation), as is whatever goes to the host. Between devices: communication. told: of copies
  // between host and device only whether they are of experts.
  void copy(std::int64_t device, std::int64_t process, CopyKind kind, std::int64_t bytes,
            std::int64_t begin_ns, std::int64_t end_ns, std::int64_t stream = StreamOrder::kUnknown,
            std::optional<KernelClass> told = std::nullopt);
  void fill(std::int64_t device, std::int64_t process, std::int64_t begin_ns, std::int64_t end_ns,
            std::int64_t stream = StreamOrder::kUnknown, std::optional<KernelClass> told = std::nullopt);
  // A call of the CUDA runtime or driver. From where a device ran out of work in one that waits until the end
  // of the next one that launches, on the same thread, the host holds that device up.
  void host_call(std::int64_t process, std::int64_t thread, std::string_view name, std::int64_t begin_ns,
                 std::int64_t end_ns);

  ImportedTrace finish();

 private:
  struct HostThread {
    std::int64_t process;
    std::vector<HostCall> calls;
  };
  struct OnStream {
    StepInterval interval;
    std::int64_t stream;
  };
  void add(std::int64_t device, std::int64_t process, const OnStream& one);

  ImportedTrace trace_;
  std::map<std::int64_t, std::vector<OnStream>> devices_;
  std::map<std::int64_t, std::map<std::int64_t, bool>> processes_;  // of each device
  std::map<std::pair<std::int64_t, std::int64_t>, HostThread> threads_;
};

struct ImportedAccount {
  std::int64_t device = 0;
  Account account;
  std::int64_t idle_ns = 0;  // left out: stretches of more than kIdleNs in which nothing ran on the device
};
inline constexpr std::int64_t kIdleNs = 100'000'000;

// One per device, from its first to its last kernel or copy.
std::vector<ImportedAccount> imported_accounts(const ImportedTrace& trace);

}  // namespace moetune
