// The inner loop of every matrix product here: dot products of weight rows with tokens' activations.
#pragma once

#include <cstdint>

#include "kernels/weight_matrix.h"

namespace moetune {

// y[token][row] = w[row] . x[token] (+ bias[row]), for row_begin <= row < row_end.
//
// Every sum is formed in an order that depends on w.layout.in and the instruction set only: not on the number
// of tokens or rows, so callers may cut both as they like. The rows need not lie as MatrixLayout puts them;
// only in, row_bytes and type count for unquantized types, so the rows of a KV cache are a matrix as well.
struct DotRows {
  WeightMatrix w{};
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  const float* const* x = nullptr;  // one pointer per token, to w.layout.in floats
  float* const* y = nullptr;        // one pointer per token, to row 0's result
  std::int64_t tokens = 0;
  const float* bias = nullptr;  // by row, or none
  bool accumulate = false;      // y += instead of y =
};
void dot_rows(const DotRows& work);

}  // namespace moetune
