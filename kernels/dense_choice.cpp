#include "kernels/dense_choice.h"

#include <atomic>

#include "kernels/tile_layout.h"

namespace moetune {
namespace {

std::atomic<std::int64_t> own_products{0};
std::atomic<std::int64_t> cublas_products{0};

}  // namespace

bool cublas_pays(const DenseShape&, std::int64_t) { return false; }

CublasScratch cublas_scratch(const DenseShape& shape, std::int64_t tokens) {
  constexpr std::int64_t kBf16 = 2;
  constexpr std::int64_t kF32 = 4;
  constexpr std::int64_t kMostGaps = 2 * kTileRows;  // in front of a matrix that is a product of its own
  const auto padded = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  const TileLayout layout = TileLayout::of(shape.type, shape.out, shape.in);
  const std::int64_t row_bytes = layout.chunks * layout.chunk * kBf16;
  const std::int64_t rows = shape.out + kMostGaps;
  CublasScratch scratch;
  scratch.weights = scratch.workspace + kCublasWorkspaceBytes;
  scratch.activations = scratch.weights + padded(rows * row_bytes);
  scratch.biases = scratch.activations + padded(tokens * row_bytes);
  scratch.bytes = scratch.biases + padded(rows * kF32);
  return scratch;
}

DenseCounts dense_counts() { return {own_products, cublas_products}; }

void count_dense(bool is_cublas, int products) { (is_cublas ? cublas_products : own_products) += products; }

#if !MOETUNE_HAS_CUDA
const std::string& why_no_cublas() {
  static const std::string reason = "built without CUDA";
  return reason;
}
std::string cublas_name() { return ""; }
#endif

}  // namespace moetune
