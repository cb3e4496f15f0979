// What a record of the device is told about the op it belongs to, in one number: kernels/device_trace.h
// carries it.
#pragma once

#include <cstdint>

#include "engine/sync_tax/interval.h"

namespace moetune {

// Kernels that mean something beside what they compute.
enum class Mark : std::uint8_t {
  none,
  run_begins,  // its end is where the first decoded step of a run begins
  step_ends,   // its end is where a step ends and the next one begins
  beside       // on a branch of the graph beside the others: it waits for none of them, nor they for it
};

struct DeviceLabel {
  Activity activity = Activity::compute;
  Row row = Row::other;
  std::int32_t layer = -1;  // -1 .. 4094
  Mark mark = Mark::none;

  // Never 0, which is no label at all.
  constexpr std::uint32_t packed() const {
    return kIsLabel | static_cast<std::uint32_t>(activity) << kActivityAt |
           static_cast<std::uint32_t>(row) << kRowAt | static_cast<std::uint32_t>(mark) << kMarkAt |
           (static_cast<std::uint32_t>(layer + 1) & kLayerMask);
  }
  static constexpr DeviceLabel unpacked(std::uint32_t label) {
    return {.activity = static_cast<Activity>(label >> kActivityAt & 15U),
            .row = static_cast<Row>(label >> kRowAt & 15U),
            .layer = static_cast<std::int32_t>(label & kLayerMask) - 1,
            .mark = static_cast<Mark>(label >> kMarkAt & 15U)};
  }
  bool operator==(const DeviceLabel&) const = default;

 private:
  static constexpr std::uint32_t kIsLabel = 1U << 31;
  static constexpr int kActivityAt = 24;
  static constexpr int kRowAt = 20;
  static constexpr int kMarkAt = 16;
  static constexpr std::uint32_t kLayerMask = 0xFFFU;
};

}  // namespace moetune
