#include "kernels/attend.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/number_convert.h"
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

WeightMatrix cache_rows(const CacheHead& head, std::int64_t first, std::int64_t last,
                        std::vector<float>& widened) {
  const Tensor& cache = head.cache;
  const std::int64_t width = cache.dim(2) / head.heads;
  assert(cache.rank() == 3 && head.slot >= 0 && head.slot < cache.dim(0) &&
         width * head.heads == cache.dim(2));
  const std::int64_t begin = head.slot * cache.stride(0) + head.head * width;
  WeightMatrix rows;
  rows.layout.out = cache.dim(1);
  rows.layout.in = width;
  switch (cache.type()) {
    case NumberType::f32:
    case NumberType::f16:
    case NumberType::bf16: {
      const std::int64_t size = element_bytes(cache.type());
      rows.data = cache.as<const std::byte>() + begin * size;
      rows.layout.type = cache.type();
      rows.layout.row_bytes = cache.stride(1) * size;
      return rows;
    }
    case NumberType::fp8:
    case NumberType::int8:
      break;
    default:
      throw std::invalid_argument("a KV cache cannot be stored as " + std::string(name_of(cache.type())));
  }
  // From position 0 on, so that positions keep their numbers; what lies before `first` is not written.
  widened.resize(static_cast<std::size_t>((last + 1) * width));
  for (std::int64_t position = first; position <= last; ++position) {
    const std::int64_t from = begin + position * cache.stride(1);
    float* to = widened.data() + position * width;
    if (cache.type() == NumberType::fp8) {
      for (std::int64_t i = 0; i < width; ++i) to[i] = f32_from_fp8(cache.as<std::uint8_t>()[from + i]);
      continue;
    }
    const float scale =
        head.scales.f32()[head.slot * head.scales.stride(0) + position * head.scales.stride(1) + head.head];
    for (std::int64_t i = 0; i < width; ++i)
      to[i] = scale * static_cast<float>(cache.as<std::int8_t>()[from + i]);
  }
  rows.data = widened.data();
  rows.layout.type = NumberType::f32;
  rows.layout.row_bytes = width * static_cast<std::int64_t>(sizeof(float));
  return rows;
}

}  // namespace moetune
