// What is known of a span of time in a step: what was done, for which part of the model, in which layer.
// Everybody who records (the CPU's scopes, CUPTI, a trace of another server) comes down to a list of these;
// account.h turns them into a tax.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moetune {

enum class Activity : std::uint8_t {
  compute,      // a kernel or an op of the model
  collective,   // ranks exchange results; waiting for the slowest of them belongs to it
  expert_copy,  // weights of an expert on their way to where they are used
  recording,    // what the recording itself adds: no part of a token
  host_wait,  // the host decides, or waits to be able to: as long as nothing else runs, the device waits for
              // it
  nothing     // an op of no model, which does nothing: as if it were not there
};
inline constexpr std::size_t kActivities = 6;

// What of the model a compute interval belongs to: the experts in two halves, feed-forward layers without
// experts as a whole.
enum class Row : std::uint8_t { router, gate_up, down_combine, shared, dense, attention, head, other };
inline constexpr std::size_t kRows = 8;

enum class Phase : std::uint8_t { prefill, decode };

// What a token's time is made of. The sixth, unexplained, is a difference: breakdown.h.
enum class Part : std::uint8_t {
  communication,
  expert_loading,
  synchronisation,
  router,
  launch_gaps,
  compute
};
inline constexpr std::size_t kParts = 6;

inline constexpr std::array<std::string_view, kParts> kPartNames = {
    "communication", "expert_loading", "synchronisation", "router", "launch_gaps", "compute"};
inline constexpr std::array<std::string_view, kRows> kRowNames = {
    "router", "gate_up", "down_combine", "shared", "dense", "attention", "head", "other"};

struct StepInterval {
  std::int64_t begin_ns = 0;  // of any one clock
  std::int64_t end_ns = 0;    // not below begin_ns
  Activity activity = Activity::compute;
  Row row = Row::other;     // of compute; others leave it
  std::int32_t layer = -1;  // of the model; -1: none or not known
};

// Not of Activity::recording, which is of none.
constexpr Part part_of(Activity activity, Row row) {
  switch (activity) {
    case Activity::collective:
      return Part::communication;
    case Activity::expert_copy:
      return Part::expert_loading;
    case Activity::host_wait:
      return Part::synchronisation;
    case Activity::nothing:
      return Part::launch_gaps;
    case Activity::recording:
    case Activity::compute:
      break;
  }
  return row == Row::router ? Part::router : Part::compute;
}

}  // namespace moetune
