// Which rows of a prompt go to which expert, on the device: the rows of an expert stand behind each other,
// each expert's first at a multiple of eight, and are cut into tiles of columns for the products. Start at
// plan_prompt().
#pragma once

#include "kernels/cuda/view.cuh"

namespace moetune::cuda {

// Capacities depend on tokens, k and experts only. An entry is an expert with rows.
struct PromptPlan {
  std::int32_t* count;         // [1] entries
  std::int32_t* slots;         // [entries]
  std::int32_t* row_first;     // [entries + 1] first row; the last is where rows end
  std::int32_t* row_count;     // [entries]
  std::int32_t* column_first;  // [entries + 1] tiles of columns before it
  std::int32_t* pair_of_row;   // [rows] token * k + choice; -1: padding
};

struct PromptShape {
  int tokens;
  int k;
  int experts;
  int pairs() const { return tokens * k; }
  int entries() const { return pairs() < experts ? pairs() : experts; }
  int rows() const { return (pairs() + 7 * entries() + 7) / 8 * 8; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(1 + 4 * entries() + 2 + rows()) * sizeof(std::int32_t);
  }
};

// memory: shape.bytes(), 4-byte aligned.
inline PromptPlan place_plan(void* memory, const PromptShape& shape) {
  auto* at = static_cast<std::int32_t*>(memory);
  const int entries = shape.entries();
  return {at + shape.rows(),
          at + shape.rows() + 1,
          at + shape.rows() + 1 + entries,
          at + shape.rows() + 2 + 2 * entries,
          at + shape.rows() + 2 + 3 * entries,
          at};
}

// ids: (tokens, k); slot_of_expert: (experts), below 0: its pairs are left out; most_columns: of a tile.
void plan_prompt(Cuda& cuda, const std::int32_t* ids, std::int64_t ids_stride,
                 const std::int32_t* slot_of_expert, const PromptShape& shape, int most_columns,
                 const PromptPlan& to);

}  // namespace moetune::cuda
