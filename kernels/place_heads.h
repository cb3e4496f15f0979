// PlaceHeads: what happens to a step's projected heads before attention: norm, rotation (Rope) and their
// place in the cache. Queries, keys and values in one op, for grouped heads as for MLA's compressed rows.
#pragma once

#include <array>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

struct PlaceHeads {
  static constexpr int kNoRotation = -1;
  struct Rows {
    Tensor x;       // (tokens, heads, width) f32, changed in place; contiguous where it has a norm or a cache
    Tensor norm{};  // (n) f32: RMSNorm of the first n elements of each head; empty: none
    int rotated = kNoRotation;  // first of the 2 * frequencies elements that are rotated
    Tensor cache{};   // (slots, context, heads * width): where they are kept, as StoreKv does; empty: nowhere
    Tensor scales{};  // StoreKv's
  };
  static constexpr int kMostRows = 3;

  std::array<Rows, kMostRows> rows{};  // used from the front; the rest are empty
  Tensor sequences;                    // (tokens) i32
  Tensor positions;                    // (tokens) i32
  Tensor frequencies;                  // (rotated elements / 2) f32
  float scale = 1.0F;                  // of the rotation
  bool interleaved = false;            // as Rope's
  float eps = 1e-6F;                   // of the norms
};
void run(Cpu& cpu, const PlaceHeads& op);
void run(Cuda& cuda, const PlaceHeads& op);

}  // namespace moetune
