// The kernels behind ExpertFfn, RoutedFfn and FeedForward: gate, up and activation; then down, with or
// without the weighted sum. A block takes 16 rows of one expert and runs over the tokens that chose it, 8 NT
// at a time; which expert that is, it finds on the device. Start at FfnWork.
#pragma once

#include "kernels/cuda/assignments.cuh"
#include "kernels/tile_layout.h"
#include "kernels/weight_matrix.h"

namespace moetune::cuda {

struct FfnTiles {
  const unsigned char* data;  // of slot 0
  std::int64_t tile_bytes;
  int chunks;
  int out;
  int in;

  static FfnTiles of(const MatrixLayout& matrix, const void* data);
};

// Who computes what for whom.
struct FfnEntries {
  // by_expert: pairs sorted on the device. one_token: entry e is choice e of the only token, no sorting
  // needed. everyone: one matrix for all tokens.
  enum class Kind : std::uint8_t { by_expert, one_token, everyone };
  Kind kind;
  int count;  // capacity: blocks in y
  int tokens;
  int k;
  Assignments sorted;                  // by_expert
  const std::int32_t* ids;             // one_token
  const std::int32_t* slot_of_expert;  // one_token
  int experts;                         // one_token: of slot_of_expert
};

struct FfnWork {
  Rows x;
  FfnEntries entries;
  std::int64_t slot_bytes;
  FfnTiles gate;
  FfnTiles up;
  FfnTiles down;
  __nv_bfloat16*
      x16;           // room for x as bf16, whole chunks of gate a row; written only where rows are not staged
  int staged_rows;   // set by the launching functions: capacity of a warp's part of the activations,
  int staged_bytes;  // and its size; 0: not staged
  int parts;         // and parts a row is staged in
  unsigned char* activated;  // (tokens * k, activated_stride) bf16 or f32, padding written too
  std::int64_t activated_stride;
  bool is_activated_f32;  // activates_f32()

#ifdef __CUDACC__
  __device__ const unsigned char* activated_row(int pair) const {
    return activated + pair * activated_stride * (is_activated_f32 ? 4 : 2);
  }
  __device__ void put_activated(int pair, int column, float value) const {
    const std::int64_t at = pair * activated_stride + column;
    if (is_activated_f32)
      reinterpret_cast<float*>(activated)[at] = value;
    else
      reinterpret_cast<__nv_bfloat16*>(activated)[at] = __float2bfloat16_rn(value);
  }
#endif
  __host__ __device__ int pairs() const { return entries.tokens * entries.k; }
};

// Elements of a row of what a matrix multiplies, in whole chunks: of activated rows for down, of x16 for
// gate.
std::int64_t padded_width(const MatrixLayout& matrix);

// Is what gate_up writes kept as f32? Where down will stage it in two parts. Known from capacities.
bool activates_f32(NumberType type, const FfnWork& work);

// Gate, up, activation.
void run_gate_up(Cuda& cuda, NumberType type, FfnWork work);
// Down, one row per pair: rows[token * token_stride + choice * choice_stride].
void run_down(Cuda& cuda, NumberType type, FfnWork work, float* rows, std::int64_t token_stride,
              std::int64_t choice_stride);
// Down and the sum over choices into y; weights empty (null data): 1. Only where down_joins() says so.
void run_down_joined(Cuda& cuda, NumberType type, FfnWork work, Rows weights, Rows y);
bool down_joins(const FfnEntries& entries);

}  // namespace moetune::cuda
