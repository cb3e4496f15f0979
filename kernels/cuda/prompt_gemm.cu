// Which kernel, and over how many blocks.
#include "kernels/cuda/prompt_gemm.cuh"

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/columns.cuh"
#include "kernels/kernel_path.h"

namespace moetune::cuda {

// prompt_hopper.cuh, prompt_portable.cu
template <NumberType type>
void launch_hopper_prompt(Cuda& cuda, const PromptGemm& op, int blocks);
template <NumberType type>
bool has_hopper_prompt();
void launch_portable_prompt(Cuda& cuda, NumberType type, const PromptGemm& op);

namespace {

bool uses_hopper(Cuda& cuda) {
  if (kernel_path().is_portable) return false;
  static const bool is_compiled = has_hopper_prompt<NumberType::bf16>();
  int major = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, cuda.state().ordinal));
  return is_compiled && major == 9;
}

}  // namespace

int most_columns_for(Cuda& cuda, int parts, int tokens) {
  const int most = parts == 1 && uses_hopper(cuda) ? 256 : 128;
  return tokens <= 64 ? 64 : std::min(most, tokens <= 128 ? 128 : 256);
}

int most_columns_of_all(Cuda& cuda, int parts, int tokens, int row_items) {
  // Microseconds of an item of 4,096 columns of weights (H200, bf16, tests/bench/cuda_cublas_bench.cpp): the
  // wider, the cheaper a column, but the busiest multiprocessor decides.
  struct Cost {
    int columns;
    double us;
  };
  constexpr Cost kCosts[] = {{256, 51.5}, {128, 43.0}, {64, 33.5}, {32, 31.5}};
  const int most = most_columns_for(cuda, parts, tokens);
  const int multiprocessors = cuda.state().multiprocessors;
  int best = most;
  double least = 0.0;
  for (const Cost& cost : kCosts) {
    if (cost.columns > most) continue;
    const int items = row_items * ((tokens + cost.columns - 1) / cost.columns);
    const double us = (items + multiprocessors - 1) / multiprocessors * cost.us;
    if (least == 0.0 || us < least) least = us, best = cost.columns;
  }
  return best;
}

void add_part(PromptGemm& op, const MatrixLayout& layout, const void* data, const float* bias, Rows y) {
  const TileLayout tiles = TileLayout::of(layout.type, layout.out, layout.in);
  op.part[op.parts++] = {static_cast<const unsigned char*>(data),
                         tiles.tile_bytes,
                         static_cast<int>(tiles.chunks),
                         static_cast<int>(layout.out),
                         op.row_items,
                         bias,
                         y};
  op.row_items += static_cast<int>((tiles.tiles + kItemTiles - 1) / kItemTiles);
}

void prompt_gemm(Cuda& cuda, NumberType type, PromptGemm op) {
  if (op.host_plan != nullptr) op.plan = *op.host_plan;
  if (op.is_gated) op.row_items = op.activated.blocks;
  if (!uses_hopper(cuda)) return launch_portable_prompt(cuda, type, op);
  const int columns = op.entries + (op.host_plan != nullptr ? op.x.capacity : op.tokens) / op.most_columns;
  const int blocks = std::min(cuda.state().multiprocessors, op.row_items * columns);
  with_tile_type(type,
                 [&](auto constant) { launch_hopper_prompt<decltype(constant)::value>(cuda, op, blocks); });
}

}  // namespace moetune::cuda

int moetune::compute_major_here() {
  static const int major = [] {
    int found = 0;
    return cudaDeviceGetAttribute(&found, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess ? found : 0;
  }();
  return major;
}
