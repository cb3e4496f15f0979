#include "kernels/slot_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace moetune {
namespace {

// Hands out one array behind the other; without memory it only counts.
class Places {
 public:
  explicit Places(std::byte* memory) : memory_(memory) {}

  template <class T>
  T* take(std::int64_t count) {
    std::byte* at = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (count * static_cast<std::int64_t>(sizeof(T)) + 15) / 16 * 16;
    return reinterpret_cast<T*>(at);
  }
  Tensor integers(std::int64_t count) { return {take<std::int32_t>(count), NumberType::i32, {count}}; }
  Tensor integers(std::int64_t rows, std::int64_t columns) {
    return {take<std::int32_t>(rows * columns), NumberType::i32, {rows, columns}};
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::int64_t bytes_ = 0;
};

struct Arrays {
  SlotState state;
  FetchList fetch;
  FetchList fetch_ahead;
  Tensor pending;
  Tensor wave_table;
  std::int64_t minus_one_bytes = 0;  // at the start: tables of slots
  std::int64_t cleared_bytes = 0;    // and zeros behind them, up to the counters
  std::int64_t bytes = 0;
};

Arrays arrays_in(std::byte* memory, int layers, int experts, int slots) {
  const std::int64_t all = std::int64_t{layers} * experts;
  Places places(memory);
  Arrays arrays;
  arrays.state.slot_of = places.integers(layers, experts);
  arrays.state.expert_in = places.integers(slots);
  arrays.wave_table = places.integers(experts);
  arrays.minus_one_bytes = places.bytes();
  arrays.state.times_asked = places.integers(layers, experts);
  arrays.state.is_hot = places.integers(layers, experts);
  arrays.state.hot = places.integers(layers, experts);
  arrays.state.hot_count = places.integers(layers);
  arrays.state.last_asked = places.take<std::int64_t>(all);
  arrays.state.step_began = places.take<std::int64_t>(layers);
  arrays.state.held_in_wave = places.take<std::int64_t>(slots);
  arrays.state.clock = places.take<std::int64_t>(2);
  arrays.state.ahead = places.integers(2 + experts);
  arrays.pending = places.integers(1 + experts);
  for (FetchList* list : {&arrays.fetch, &arrays.fetch_ahead})
    *list = {
        .count = places.integers(1), .sources = places.integers(experts), .slots = places.integers(experts)};
  arrays.cleared_bytes = places.bytes();
  arrays.state.counters = places.take<SlotCounters>(1);
  arrays.bytes = places.bytes();
  return arrays;
}

}  // namespace

SlotMemory::SlotMemory(Device& device, int layers, int experts, int slots)
    : memory_(device, bytes_of(layers, experts, slots)) {
  const Arrays arrays = arrays_in(memory_.data(), layers, experts, slots);
  state_ = arrays.state;
  fetch_ = arrays.fetch;
  fetch_ahead_ = arrays.fetch_ahead;
  pending_ = arrays.pending;
  wave_table_ = arrays.wave_table;
  cleared_bytes_ = arrays.cleared_bytes;
  clear(device);
  reset_counters(device);
}

void SlotMemory::clear(Device& device) {
  const Arrays arrays =
      arrays_in(memory_.data(), static_cast<int>(state_.slot_of.dim(0)),
                static_cast<int>(state_.slot_of.dim(1)), static_cast<int>(state_.expert_in.dim(0)));
  std::vector<std::byte> empty(static_cast<std::size_t>(cleared_bytes_));
  std::memset(empty.data(), 0xFF, static_cast<std::size_t>(arrays.minus_one_bytes));
  copy_to_device(device, empty.data(), memory_.data(), cleared_bytes_);
  wait_for(device);  // what is copied ends with this call
}

void SlotMemory::take_over(Device& device, const SlotRecord& record) {
  clear(device);
  const auto layers = static_cast<std::size_t>(state_.slot_of.dim(0));
  const auto experts = static_cast<std::size_t>(state_.slot_of.dim(1));
  std::vector<std::int32_t> is_hot(layers * experts);
  std::vector<std::int32_t> hot(layers * experts);
  std::vector<std::int32_t> hot_count;
  for (std::size_t layer = 0; layer < record.hot.size(); ++layer) {
    std::ranges::copy(record.hot[layer], hot.begin() + static_cast<std::ptrdiff_t>(layer * experts));
    for (const std::int32_t expert : record.hot[layer]) is_hot[static_cast<std::size_t>(expert)] = 1;
    hot_count.push_back(static_cast<std::int32_t>(record.hot[layer].size()));
  }
  const std::vector<std::int64_t> step_began(layers, record.clock);
  const auto upload = [&](const auto& values, void* to) {
    copy_to_device(device, values.data(), to, static_cast<std::int64_t>(values.size() * sizeof(values[0])));
  };
  upload(record.slot_of, state_.slot_of.data());
  upload(record.expert_in, state_.expert_in.data());
  upload(record.times_asked, state_.times_asked.data());
  upload(record.last_asked, state_.last_asked);
  upload(is_hot, state_.is_hot.data());
  upload(hot, state_.hot.data());
  upload(hot_count, state_.hot_count.data());
  upload(step_began, state_.step_began);
  copy_to_device(device, &record.clock, state_.clock, sizeof(record.clock));
  wait_for(device);  // what is copied ends with this call
}

void SlotMemory::reset_counters(Device& device) {
  const SlotCounters zero{};
  copy_to_device(device, &zero, state_.counters, sizeof(zero));
  wait_for(device);
}

SlotCounters SlotMemory::counters(Device& device) const {
  SlotCounters counters{};
  copy_to_host(device, state_.counters, &counters, sizeof(counters));
  return counters;
}

std::int64_t SlotMemory::bytes_of(int layers, int experts, int slots) {
  return arrays_in(nullptr, layers, experts, slots).bytes;
}

}  // namespace moetune
