// One kernel where the normed rows fit into shared memory and the weights lie in tiles of one type; else norm
// and products one after the other.
#include "kernels/norm_gemm.h"

#include "kernels/cuda/prompt_ops.cuh"
#include "kernels/cuda/tile_gemm.cuh"
#include "kernels/gemm.h"
#include "kernels/rms_norm.h"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

bool is_uniform(const NormGemm& op) {
  const MatrixLayout& first = op.parts[0].w.layout;
  for (const NormGemm::Part& part : op.parts)
    if (!part.w.empty() && (part.w.layout.packing != Packing::tiles || part.w.layout.type != first.type))
      return false;
  return true;
}

cuda::TileGemm in_one(const NormGemm& op) {
  cuda::TileGemm gemm{};
  gemm.x = cuda::rows_of(op.x);
  gemm.tokens = static_cast<int>(op.x.dim(0));
  gemm.in = static_cast<int>(op.x.dim(1));
  gemm.norm = op.norm.f32();
  gemm.eps = op.eps;
  for (const NormGemm::Part& part : op.parts) {
    if (part.w.empty()) continue;
    const TileLayout layout = TileLayout::of(part.w.layout.type, part.w.layout.out, part.w.layout.in);
    gemm.chunks = static_cast<int>(layout.chunks);
    gemm.part[gemm.parts++] = {static_cast<const unsigned char*>(part.w.data),
                               layout.tile_bytes,
                               static_cast<int>(layout.out),
                               gemm.tiles,
                               part.bias.empty() ? nullptr : part.bias.f32(),
                               cuda::rows_of(part.y)};
    gemm.tiles += static_cast<int>(layout.tiles);
  }
  return gemm;
}

// All products of a large step together; normed rows are not even written where cuBLAS takes them.
void run_as_prompt(Cuda& cuda, const NormGemm& op) {
  std::array<cuda::PromptPart, NormGemm::kMostParts> parts{};
  int count = 0;
  for (const NormGemm::Part& part : op.parts)
    if (!part.w.empty())
      parts[static_cast<std::size_t>(count++)] = {
          part.w.layout, part.w.data, part.bias.empty() ? nullptr : part.bias.f32(), cuda::rows_of(part.y)};
  const auto tokens = static_cast<int>(op.x.dim(0));
  if (cuda::takes_cublas(parts.data(), count, tokens)) {
    const cuda::PromptNorm norm{op.norm.f32(), op.eps};
    return cuda::cublas_products(cuda, cuda::rows_of(op.x), tokens, parts.data(), count, false, &norm);
  }
  run(cuda, RmsNorm{.x = op.x, .weight = op.norm, .y = op.normed, .eps = op.eps});
  cuda::prompt_products(cuda, cuda::rows_of(op.normed), tokens, parts.data(), count, false);
}

}  // namespace

void run(Cuda& cuda, const NormGemm& op) {
  if (op.x.dim(0) == 0) return;
  const NumberType type = op.parts[0].w.layout.type;
  const RmsNorm norm{.x = op.x, .weight = op.norm, .y = op.normed, .eps = op.eps};
  if (is_uniform(op)) {
    const cuda::TileGemm gemm = in_one(op);
    if (cuda::takes_prompt_product(gemm.tokens, std::int64_t{gemm.tiles} * kTileRows))
      return run_as_prompt(cuda, op);
    if (cuda::norm_fits(cuda, type, gemm)) return cuda::tile_gemm(cuda, type, gemm);
  }
  run(cuda, norm);
  for (const NormGemm::Part& part : op.parts)
    if (!part.w.empty()) run(cuda, Gemm{.x = op.normed, .w = part.w, .y = part.y, .bias = part.bias});
}

}  // namespace moetune
