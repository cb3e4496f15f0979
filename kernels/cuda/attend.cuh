// Attention of the heads that share a cache row, for decode and prefill alike: what Attention and
// MlaAttention have in common on a GPU. Start at attend(). The cache is cut into pieces that different blocks
// take (split over the KV length); the last to finish join their softmaxes (attend_join.cuh). The grid
// depends on capacities only, never on how long a context is now: blocks without work leave at once.
#pragma once

#include "kernels/cuda/view.cuh"

namespace moetune {
struct Attention;
struct MlaAttention;
}  // namespace moetune

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

// What PlaceHeads would have done, left to the attention: the tokens' own rows are not in the cache yet. Only
// where every token is of a sequence of its own, so that no block needs a row that another one writes.
struct AttendPlacing {
  bool is_asked = false;
  const float* new_keys = nullptr;    // (tokens, kv heads, key width), as projected
  const float* new_values = nullptr;  // the same of values, or null: the keys' row holds them
  HeadStrides new_key_strides{};
  HeadStrides new_value_strides{};
  const float* query_norm = nullptr;   // null: none
  const float* key_norm = nullptr;     // null: none; of the latent part where one row serves all heads
  const float* frequencies = nullptr;  // null: no rotation
  float rope_scale = 1.0F;
  bool is_interleaved = false;
  float eps = 0.0F;
};

struct AttendInputs {
  const float* q = nullptr;  // first q_width elements of a query
  HeadStrides q_strides{};
  int q_width = 0;
  const float* q_rest = nullptr;  // the rest of them, or null
  HeadStrides q_rest_strides{};
  void* keys =
      nullptr;  // slot s, position p, kv head h: keys + s * slot_stride + p * row_stride + h * head_stride
  void* values = nullptr;        // likewise; the same as keys: one row holds both
  std::int64_t slot_stride = 0;  // all in elements
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
  float* key_scales = nullptr;  // int8: scales + s * scale_slot_stride + p * kv_heads + h; else null
  float* value_scales = nullptr;
  std::int64_t scale_slot_stride = 0;
  const std::int32_t* sequences = nullptr;
  const std::int32_t* positions = nullptr;
  float* y = nullptr;
  HeadStrides y_strides{};
  AttendPlacing placing{};
};

struct AttendCall {
  NumberType type;  // of the cache
  AttendShape shape;
  AttendInputs inputs{};
};
AttendCall call_of(const Attention& op);     // attention.cu
AttendCall call_of(const MlaAttention& op);  // mla_attention.cu

// Throws std::invalid_argument for a type that no cache has and rows wider than 768.
void attend(Cuda& cuda, NumberType cache_type, const AttendShape& shape, const AttendInputs& inputs);

// May the heads be placed by the attention itself (inputs.placing)?
bool attend_places(NumberType cache_type, const AttendShape& shape, const AttendInputs& inputs);

// The same on tensor cores, for grouped heads of 64 or 128 elements: queries are rounded to bf16.
bool attends_with_tensor_cores(NumberType cache_type, const AttendShape& shape, const AttendInputs& inputs);
void attend_with_tensor_cores(Cuda& cuda, NumberType cache_type, const AttendShape& shape,
                              const AttendInputs& inputs);

// And for one row of 512 + 64 elements that serves all heads.
bool attends_latent(NumberType cache_type, const AttendShape& shape, const AttendInputs& inputs);
void attend_latent(Cuda& cuda, NumberType cache_type, const AttendShape& shape, const AttendInputs& inputs);

// The latter with wgmma, where GPU and build have it.
bool attends_latent_on_hopper(NumberType cache_type, const AttendShape& shape, const AttendInputs& inputs);
void attend_latent_on_hopper(Cuda& cuda, NumberType cache_type, const AttendShape& shape,
                             const AttendInputs& inputs);

}  // namespace moetune::cuda
