// Products of weights in tiles with a few rows of activations, up to three matrices of one type that read the
// same rows in one kernel, with or without an RMSNorm in front. What Gemm and NormGemm have in common. Start
// at tile_gemm().
#pragma once

#include "kernels/cuda/view.cuh"
#include "kernels/number_type.h"

namespace moetune::cuda {

struct GemmPart {
  const unsigned char* tiles;
  std::int64_t tile_bytes;
  int out;
  int first_tile;  // of the whole launch
  const float* bias;
  Rows y;
};

struct TileGemm {
  static constexpr int kMostParts = 3;
  Rows x;
  int tokens;
  int in;
  int chunks;
  int tiles;  // of all parts
  int parts;
  GemmPart part[kMostParts];
  bool accumulates;
  const float* norm;  // null: x as it is
  float eps;
};

// Shared memory that a block may have on this GPU: 99 KiB to 227 KiB.
int most_shared_bytes(Cuda& cuda);

// May a norm be part of this launch? Not where the rows would take too much shared memory.
bool norm_fits(Cuda& cuda, NumberType type, const TileGemm& op);

// Throws std::invalid_argument for a type without tiles.
void tile_gemm(Cuda& cuda, NumberType type, const TileGemm& op);

}  // namespace moetune::cuda
