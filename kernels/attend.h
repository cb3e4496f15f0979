// Attention of a few heads of one token over the rows of a cache: the common part of Attention and
// MlaAttention.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune {

// Heads that share the rows of a cache are handled up to this many at a time: enough to read a row rarely,
// few enough that one token's heads keep several threads busy.
inline constexpr std::int64_t kHeadsPerPiece = 16;

struct Attend {
  WeightMatrix keys{};    // (positions, key width)
  WeightMatrix values{};  // (positions, value width)
  std::int64_t first_position = 0;
  std::int64_t last_position = 0;   // included
  const float* const* q = nullptr;  // one pointer per head
  float* const* y = nullptr;        // one pointer per head
  std::int64_t heads = 0;           // at most kHeadsPerPiece
  float scale = 1.0F;               // positive
};
// y = softmax(scale * q keys^T) values, by the same operations in the same order for any number of heads.
void attend(const Attend& work);

// Positions that the furthest token sees; 1 without tokens.
std::int64_t longest_context(const Tensor& positions);

// One of the heads that share the columns of a cache equally.
struct CacheHead {
  const Tensor& cache;   // (slots, context, all columns)
  const Tensor& scales;  // int8: (slots, context, heads) f32; else empty
  std::int64_t slot;
  std::int64_t head;
  std::int64_t heads;
};
// Its columns in one slot, as a matrix of positions, of which [first, last] can be read: the cache's own
// memory, or, of fp8 and int8, its numbers in `widened`. Throws std::invalid_argument for a type that no
// cache has.
WeightMatrix cache_rows(const CacheHead& head, std::int64_t first, std::int64_t last,
                        std::vector<float>& widened);

}  // namespace moetune
