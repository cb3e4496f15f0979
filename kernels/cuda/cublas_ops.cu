// Dense products by cuBLAS: weights and activations become rows of bf16 in scratch memory, then one product,
// or one a part where results do not lie side by side. Start at cublas_products().
#include <array>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/cublas_product.cuh"
#include "kernels/cuda/prompt_ops.cuh"
#include "kernels/cuda/untile.cuh"
#include "kernels/kernel_path.h"
#include "kernels/tile_layout.h"

namespace moetune::cuda {
namespace {

DenseShape shape_of(const PromptPart* parts, int count) {
  DenseShape shape{parts[0].layout.type, 0, parts[0].layout.in};
  for (int i = 0; i < count; ++i) shape.out += parts[i].layout.out;
  return shape;
}

// How many parts from `first` on write neighbouring columns.
int joined(const PromptPart* parts, int count, int first) {
  int end = first + 1;
  while (end < count && parts[end].y.stride == parts[first].y.stride &&
         parts[end].y.data == parts[end - 1].y.data + parts[end - 1].layout.out)
    ++end;
  return end - first;
}

template <class Pays>
bool takes(int tokens, const Pays& pays) {
  const KernelPath path = kernel_path();
  if (path.dense == DenseChoice::own || tokens <= path.most_split_tokens) return false;
  if (path.dense == DenseChoice::cublas) return true;
  return pays() && why_no_cublas().empty();
}

}  // namespace

bool takes_cublas(const PromptPart* parts, int count, int tokens) {
  return takes(tokens, [&] { return cublas_pays(shape_of(parts, count), tokens, own_kernels()); });
}

bool takes_cublas_for_ffn(const MatrixLayout& gate, int tokens) {
  return takes(tokens,
               [&] { return cublas_pays_for_ffn({gate.type, gate.out, gate.in}, tokens, own_kernels()); });
}

namespace {

// bring(to, width): activations as rows of bf16, enqueued behind the copy of the weights.
template <class Bring>
void multiply(Cuda& cuda, int tokens, const PromptPart* parts, int count, bool accumulates,
              const Bring& bring) {
  const DenseShape shape = shape_of(parts, count);
  const int width = untiled_width(parts[0].layout);
  const CublasScratch places = cublas_scratch(shape, tokens);
  auto* scratch = static_cast<unsigned char*>(cuda.state().scratch(static_cast<std::size_t>(places.bytes)));
  auto* w = reinterpret_cast<__nv_bfloat16*>(scratch + places.weights);
  auto* x16 = reinterpret_cast<__nv_bfloat16*>(scratch + places.activations);
  auto* biases = reinterpret_cast<float*>(scratch + places.biases);
  Untile copy{};
  copy.to = w;
  std::array<CublasProduct, Untile::kMostParts> products{};
  int product_count = 0;
  int row = 0;
  for (int first = 0; first < count;) {
    row =
        (row + kTileRows - 1) / kTileRows * kTileRows;  // so that weights and biases of a product are aligned
    CublasProduct& product = products[static_cast<std::size_t>(product_count++)];
    product = {.w = w + std::int64_t{row} * width,
               .x = x16,
               .y = parts[first].y.data,
               .y_stride = parts[first].y.stride,
               .out = 0,
               .tokens = tokens,
               .width = width,
               .bias = nullptr,
               .accumulates = accumulates,
               .workspace = scratch};
    const int first_row = row;
    const int end = first + joined(parts, count, first);
    for (; first < end; ++first) {
      copy.part[copy.parts++] = {parts[first].layout, parts[first].data, parts[first].bias, row};
      row += static_cast<int>(parts[first].layout.out);
      if (parts[first].bias != nullptr) product.bias = biases + first_row, copy.biases = biases;
    }
    product.out = row - first_row;
  }
  untile(cuda, copy);  // first: it fetches weights while the op before this one ends
  bring(x16, width);
  for (int i = 0; i < product_count; ++i) cublas_product(cuda, products[static_cast<std::size_t>(i)]);
  count_dense(true, count);
}

}  // namespace

void cublas_products(Cuda& cuda, Rows x, int tokens, const PromptPart* parts, int count, bool accumulates,
                     const PromptNorm* norm) {
  const auto in = static_cast<int>(parts[0].layout.in);
  multiply(cuda, tokens, parts, count, accumulates, [&](__nv_bfloat16* to, int width) {
    if (norm != nullptr)
      to_normed_bf16_rows(cuda, x, norm->weight, norm->eps, tokens, in, width, to);
    else
      to_bf16_rows(cuda, x, tokens, in, width, to);
  });
}

void cublas_ffn(Cuda& cuda, const FeedForward& op) {
  const auto tokens = static_cast<int>(op.x.dim(0));
  const Rows gated = rows_of(op.gated);
  const Rows upped = rows_of(op.upped);
  const PromptPart first[] = {{op.gate.layout, op.gate.data, nullptr, gated},
                              {op.up.layout, op.up.data, nullptr, upped}};
  const PromptPart down{op.down.layout, op.down.data, nullptr, rows_of(op.y)};
  cublas_products(cuda, rows_of(op.x), tokens, first, 2, false);
  multiply(cuda, tokens, &down, 1, true, [&](__nv_bfloat16* to, int width) {
    to_gated_bf16_rows(cuda, gated, upped, tokens, static_cast<int>(op.down.layout.in), width, to);
  });
}

}  // namespace moetune::cuda
