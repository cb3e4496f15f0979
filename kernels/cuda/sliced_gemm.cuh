// TileGemm for steps of several tokens: `in` is cut into slices, so that a block's part of the activations
// fits into shared memory, is read once from the L2 cache and serves several tiles. A block multiplies two
// tiles at a time with one slice; of the blocks that share tiles the last one to finish adds up the slices,
// in their order.
#pragma once

#include "kernels/cuda/tile_gemm.cuh"

namespace moetune::cuda {

// More than a few tokens, not yet a prompt.
inline bool is_sliced(const TileGemm& op) { return op.tokens > 4 && op.tokens <= 64; }

void sliced_gemm(Cuda& cuda, NumberType type, const TileGemm& op);

}  // namespace moetune::cuda
