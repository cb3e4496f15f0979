#include "kernels/dense_choice.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "kernels/kernel_path.h"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

std::atomic<std::int64_t> own_products{0};
std::atomic<std::int64_t> cublas_products{0};
std::optional<DenseGpu> told;

// What decides is the size of the copy, which is written and read once more however few the tokens are, and
// how far the own kernels are behind: the farther the fewer rows a matrix has, which goes with its size.
struct Crossover {
  std::int64_t most_bytes;  // of the matrix in bf16
  std::int64_t least_tokens;
};
constexpr std::int64_t kLeastBytes = 1'000'000;  // smaller ones were not measured

// Measured on an H200 with cuBLAS 13.1 (tests/bench/cuda_cublas_bench.cpp, reports/h200/cublas.txt), bf16
// and, for three of the shapes, int4, int8 and fp8, whose crossovers lie within a step of those of bf16.
// Microseconds, own against cuBLAS with copies:
//                  72 tokens   128      512      1,024    2,048    4,096
//   8 MB    v2lite o   20 11    20 11    27 14    32  21    48  38    81   66
//   17 MB   qwen3 o    35 18    35 18    43 29    51  39    74  66   134  118
//   30 MB   v3 q_a     62 28    63 29    80 48    98  70   184 119   287  205
//   34 MB   mixtral o  36 29    40 32    50 45    68  69   121 115   228  209
//   50 MB   mixtral qkv 42 44   41 45    66 65   114  99   167 166   321  297
//   75 MB   v3 q_b     38 63    43 65    83 99   147 151   276 253   540  461
//   235 MB  v3 o      134 198  134 201  193 284  373 451   732 734  1285 1262: not worth a quarter of a
//   gigabyte
// Up to 64 tokens the kernels of decoding are as fast (most_sliced_tokens).
constexpr Crossover kProducts[] = {{36'000'000, 65}, {64'000'000, 1024}, {96'000'000, 2048}};
// bytes: of one of the three matrices.
//   12 MB   v2lite shared  46 33    50 34   100 54   137  81   166 138   303  261
//   29 MB   v3 shared     107 79   108 83   145 122  198 198   352 310   642  575
//   117 MB  llama3        208 299  227 306  399 420  557 649  1084 1101 2144 1990: not worth that memory
constexpr Crossover kFeedForwards[] = {{36'000'000, 65}};
// Kernels without wgmma take 2.2 to 5.3 times as long as cuBLAS with copies. Larger matrices would be heads,
// whose scratch memory every step would have to keep for the few that want many logits.
constexpr Crossover kPortable[] = {{128'000'000, 65}};

bool pays(std::span<const Crossover> table, const DenseShape& shape, std::int64_t tokens) {
  const std::int64_t bytes = shape.out * shape.in * 2;
  if (bytes < kLeastBytes) return false;
  const auto at =
      std::ranges::find_if(table, [&](const Crossover& crossover) { return bytes <= crossover.most_bytes; });
  return at != table.end() && tokens >= at->least_tokens;
}

}  // namespace

bool cublas_pays(const DenseShape& shape, std::int64_t tokens, OwnKernels own) {
  return own == OwnKernels::portable ? pays(kPortable, shape, tokens) : pays(kProducts, shape, tokens);
}

bool cublas_pays_for_ffn(const DenseShape& gate, std::int64_t tokens, OwnKernels own) {
  return own == OwnKernels::portable ? pays(kPortable, gate, tokens) : pays(kFeedForwards, gate, tokens);
}

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

void tell_dense_gpu(std::optional<DenseGpu> found) { told = std::move(found); }

OwnKernels own_kernels() {
  const int major = told ? told->compute_major : compute_major_here();
  const bool is_portable = kernel_path().is_portable || (major != 0 && major != 9);
  return is_portable ? OwnKernels::portable : OwnKernels::wgmma;
}

const std::string& why_no_cublas() { return told ? told->why_no_cublas : cublas_problem_here(); }

DenseCounts dense_counts() { return {own_products, cublas_products}; }

void count_dense(bool is_cublas, int products) { (is_cublas ? cublas_products : own_products) += products; }

#if !MOETUNE_HAS_CUDA
const std::string& cublas_problem_here() {
  static const std::string reason = "built without CUDA";
  return reason;
}
std::string cublas_name() { return ""; }
int compute_major_here() { return 0; }
#endif

}  // namespace moetune
