// Which tokens go to which expert: (token, choice) pairs sorted by expert, on the device, so that the host
// never has to know what the router chose. Start at sort_assignments().
#pragma once

#include "kernels/cuda/view.cuh"

namespace moetune::cuda {

// Capacities depend on tokens, k and experts only. All arrays live on the device.
struct Assignments {
  std::int32_t* count;  // [1] experts with tokens, 0 .. entries
  std::int32_t* slots;  // [entries] slot of each of them, by expert id ascending
  std::int32_t* first;  // [entries + 1] its first pair
  std::int32_t* pairs;  // [tokens * k] token * k + choice, by expert, then ascending
};

struct AssignmentShape {
  int tokens;
  int k;
  int experts;
  int pairs() const { return tokens * k; }
  int entries() const { return pairs() < experts ? pairs() : experts; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(2 + 2 * entries() + pairs()) * sizeof(std::int32_t);
  }
};

inline Assignments place_assignments(void* memory, const AssignmentShape& shape) {
  auto* at = static_cast<std::int32_t*>(memory);
  return {at, at + 1, at + 1 + shape.entries(), at + 2 + 2 * shape.entries()};
}

// ids: (tokens, k) expert ids; slot_of_expert: (experts), below 0: not in this wave, its pairs are left out.
void sort_assignments(Cuda& cuda, const std::int32_t* ids, std::int64_t ids_stride,
                      const std::int32_t* slot_of_expert, const AssignmentShape& shape,
                      const Assignments& to);

}  // namespace moetune::cuda
