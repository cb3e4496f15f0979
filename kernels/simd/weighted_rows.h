// Weighted sums of rows: the second half of attention, as dot_rows.h is the first.
#pragma once

#include <cstdint>

#include "kernels/weight_matrix.h"

namespace moetune {

// y[head] += sum over rows of weights[head][row] * rows[row], for row_begin <= row < row_end. Every element
// adds its rows one after the other, so neither the number of heads nor a cut of the rows into several calls
// changes a bit.
struct WeightedRows {
  WeightMatrix rows{};  // f32, f16 or bf16; only type, in and row_bytes of its layout count
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  const float* const* weights = nullptr;  // one pointer per head, indexed by row
  float* const* y = nullptr;              // one pointer per head, to rows.layout.in floats
  std::int64_t heads = 0;
};
void add_weighted_rows(const WeightedRows& work);

}  // namespace moetune
