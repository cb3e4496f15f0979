// Records as a GPU would give them, written down by hand, and what a step's account says of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sync_tax/account.h"
#include "engine/sync_tax/device_label.h"
#include "engine/sync_tax/device_steps.h"
#include "engine/sync_tax/step_recorder.h"

namespace moetune {

using Kind = DeviceRecord::Kind;

inline constexpr DeviceLabel op(Row row, int layer = 0) {
  return {.activity = Activity::compute, .row = row, .layer = layer};
}
inline constexpr DeviceLabel marked(Mark mark) {
  return {.activity = Activity::compute, .row = Row::other, .layer = -1, .mark = mark};
}

inline DeviceRecord kernel(std::int64_t begin_ns, std::int64_t end_ns, const DeviceLabel& label,
                           std::uint32_t stream = 7) {
  return {.kind = Kind::kernel,
          .begin_ns = begin_ns,
          .end_ns = end_ns,
          .label = label.packed(),
          .stream = stream,
          .name = "k"};
}
inline DeviceRecord call(std::int64_t begin_ns, std::int64_t end_ns, const char* name) {
  return {.kind = Kind::host_call, .begin_ns = begin_ns, .end_ns = end_ns, .stream = 1, .name = name};
}

inline std::vector<RecordedStep> decoded(std::size_t steps) {
  return std::vector<RecordedStep>(steps, RecordedStep{.phase = Phase::decode, .tokens = 1, .causes = {}});
}

inline Account account_of(const DeviceSteps& steps, std::size_t which) {
  const RecordedStep& step = steps.steps.at(which);
  return account(step.begin_ns, step.end_ns, std::span(steps.intervals).subspan(step.first, step.count));
}
inline std::int64_t ns(const Account& account, Part part) {
  return account.exposed_ns[static_cast<std::size_t>(part)];
}
inline std::int64_t ns(const Account& account, Row row) {
  return account.row_ns[static_cast<std::size_t>(row)];
}

}  // namespace moetune
