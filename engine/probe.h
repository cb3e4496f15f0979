// Looks at the machine: what a fingerprint says, and how fast memory can be read. Start at probe_hardware().
#pragma once

#include <span>
#include <string>

#include "engine/facts/hardware_fingerprint.h"

namespace moetune {

// threads: as the engine will use, 0: all this process may use. Takes about a fifth of a second, most of it
// for the read rate.
HardwareFingerprint probe_hardware(int threads);

// The same without what takes time to measure: memory_gb_per_s stays 0.
HardwareFingerprint describe_host(int threads);

// What several short measurements of one rate came to.
struct ReadRate {
  double gb_per_s = 0.0;  // the best of them: others can only take from it
  double spread =
      0.0;  // 0.1: the worst of them came to 10 % less, or their threads waited for a core so long
};

// Read rate of main memory with that many threads: the best of a few passes over a block beyond every cache
// but the largest servers' (there it is the rate of their cache, and says so by its height), measured four
// times.
ReadRate measured_read_rate(int threads);
// running_share: of the time, how much the threads had a core. While others have it all repeats are alike,
// and alike wrong.
ReadRate read_rate_of(std::span<const double> gb_per_s, double running_share = 1.0);

// The last cache before main memory; 0: the system does not say.
std::int64_t last_level_cache_bytes();

// Memory this process may use: what the machine has or the control group grants, whichever is less.
std::int64_t usable_memory_bytes();

// Of it, what nobody uses now (MemAvailable: caches that can be dropped count as free).
std::int64_t available_memory_bytes();

}  // namespace moetune
