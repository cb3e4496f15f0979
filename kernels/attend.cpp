#include "kernels/attend.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/simd/dot_rows.h"
#include "kernels/simd/vector_math.h"
#include "kernels/simd/weighted_rows.h"

namespace moetune {

namespace {
WeightMatrix rows_from(WeightMatrix rows, std::int64_t first) {
  rows.data = rows.row_values(first);
  return rows;
}
}  // namespace

void attend(const Attend& work) {
  assert(work.heads <= kHeadsPerPiece && work.first_position <= work.last_position);
  const std::int64_t positions = work.last_position + 1 - work.first_position;
  const std::int64_t width = work.values.layout.in;
  thread_local std::vector<float> scores;  // (heads, positions)
  scores.resize(static_cast<std::size_t>(positions * work.heads));
  std::array<float*, kHeadsPerPiece> score_rows{};
  for (std::int64_t head = 0; head < work.heads; ++head)
    score_rows[static_cast<std::size_t>(head)] = scores.data() + head * positions;

  dot_rows({.w = rows_from(work.keys, work.first_position),
            .row_end = positions,
            .x = work.q,
            .y = score_rows.data(),
            .tokens = work.heads});
  std::array<float, kHeadsPerPiece> sums{};
  for (std::int64_t head = 0; head < work.heads; ++head) {
    const auto index = static_cast<std::size_t>(head);
    sums[index] = exponentials(score_rows[index], positions, work.scale);
    std::fill_n(work.y[head], width, 0.0F);
  }
  add_weighted_rows({.rows = rows_from(work.values, work.first_position),
                     .row_end = positions,
                     .weights = score_rows.data(),
                     .y = work.y,
                     .heads = work.heads});
  for (std::int64_t head = 0; head < work.heads; ++head) {
    const float share = 1.0F / sums[static_cast<std::size_t>(head)];
    for (std::int64_t i = 0; i < width; ++i) work.y[head][i] *= share;
  }
}

std::int64_t longest_context(const Tensor& positions) {
  std::int32_t last = 0;
  for (std::int64_t token = 0; token < positions.dim(0); ++token)
    last = std::max(last, positions.i32()[token]);
  return std::int64_t{last} + 1;
}

WeightMatrix cache_rows(const Tensor& cache, std::int64_t slot, std::int64_t begin, std::int64_t width) {
  assert(cache.rank() == 3 && slot >= 0 && slot < cache.dim(0) && begin + width <= cache.dim(2));
  if (cache.type() != NumberType::f32 && cache.type() != NumberType::f16 && cache.type() != NumberType::bf16)
    throw std::invalid_argument("a KV cache cannot be stored as " + std::string(name_of(cache.type())));
  const std::int64_t size = element_bytes(cache.type());
  WeightMatrix rows;
  rows.data = cache.as<const std::byte>() + (slot * cache.stride(0) + begin) * size;
  rows.layout.type = cache.type();
  rows.layout.out = cache.dim(1);
  rows.layout.in = width;
  rows.layout.row_bytes = cache.stride(1) * size;
  return rows;
}

}  // namespace moetune
