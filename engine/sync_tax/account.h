// Where the time of one step went: every instant belongs to exactly one part. Start at account().
//
// Of all that runs at an instant the first of this list has it: compute of the model, the router's compute,
// communication, expert loading, the recording, synchronisation; an instant with none of them is a launch
// gap. The order is that of what a token would still need if everything else were free, so what is done
// beside compute costs nothing: it is counted as hidden, apart.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/sync_tax/interval.h"

namespace moetune {

struct Account {
  std::int64_t length_ns = 0;                     // of the window
  std::array<std::int64_t, kParts> exposed_ns{};  // with recording_ns they add up to length_ns
  std::int64_t recording_ns = 0;                  // of no part: without recording it would not be
  std::array<std::int64_t, kParts> hidden_ns{};   // time of a part in which another part had the instant
  std::array<std::int64_t, kRows> row_ns{};       // add up to the exposed router and compute
  std::array<std::int64_t, kRows> row_hidden_ns{};
  std::array<std::int64_t, kParts> records{};  // intervals that touch the window, by their part

  Account& operator+=(const Account& other);
  std::int64_t record_count() const;
};

// Of the window [begin_ns, end_ns). Intervals may overlap, nest, and reach beyond it; of two rows that
// compute at once the one that Row names first has the instant. Throws std::invalid_argument for an interval
// or a window that ends before it begins.
Account account(std::int64_t begin_ns, std::int64_t end_ns, std::span<const StepInterval> intervals);

}  // namespace moetune
