// Losses of known size, put into a running engine so that the account of its time can be shown to find them.
// For tests and for reports/h200/tax.sh; nothing else sets them.
#pragma once

#include <cstdint>

namespace moetune {

struct Injection {
  int empty_ops = 0;  // behind the head of every step, ops that do nothing: launch gaps
  std::int64_t host_stall_ns =
      0;  // after every decoded step the host waits for the device, then idles so long: synchronisation
  int expert_reads = 1;  // how often every expert is read: compute where it is resident, else expert loading
  std::int64_t router_spin_ns = 0;  // in every layer's router

  bool operator==(const Injection&) const = default;
};

}  // namespace moetune
