// Attention of the heads that share a cache row, for decode and prefill alike: what Attention and
// MlaAttention have in common on a GPU. Start at attend(). The cache is cut into pieces that different blocks
// take (split over the KV length); the one that finishes last joins their softmaxes. The grid depends on capacities only,
// never on how long a context is now: blocks without work leave at once.
#pragma once

#include "kernels/cuda/view.cuh"

namespace moetune::cuda {

struct HeadStrides {
  std::int64_t token;
  std::int64_t head;
};

struct AttendShape {
  int tokens;
  int heads;
  int kv_heads;     // heads / kv_heads query heads share a cache row
  int key_width;    // of one head's cache row
  int value_width;  // of the result
  int window;       // > 0: only the last positions are seen
  int capacity;     // positions of a cache slot
  float scale;
};

struct AttendInputs {
  const float* q;  // first q_width elements of a query
  HeadStrides q_strides;
  int q_width;
  const float* q_rest;  // the rest of them, or null
  HeadStrides q_rest_strides;
  const void*
      keys;  // slot s, position p, kv head h: keys + s * slot_stride + p * row_stride + h * head_stride
  const void* values;        // likewise
  std::int64_t slot_stride;  // all in elements
  std::int64_t row_stride;
  std::int64_t head_stride;
  const std::int32_t* sequences;
  const std::int32_t* positions;
  float* y;
  HeadStrides y_strides;
};

// Throws std::invalid_argument for cache types other than f32, f16, bf16 and rows wider than 768.
void attend(Cuda& cuda, NumberType cache_type, const AttendShape& shape, const AttendInputs& inputs);

// The same on tensor cores, for grouped heads of 64 or 128 elements over a bf16 cache: queries are rounded to bf16.
bool attends_with_tensor_cores(NumberType cache_type, const AttendShape& shape, const AttendInputs& inputs);
void attend_with_tensor_cores(Cuda& cuda, const AttendShape& shape, const AttendInputs& inputs);

}  // namespace moetune::cuda
