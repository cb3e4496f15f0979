#include "kernels/cuda/prompt_ops.cuh"

#include "kernels/dense_choice.h"
#include "kernels/kernel_path.h"

namespace moetune::cuda {
namespace {

std::int64_t padded(std::int64_t bytes) { return (bytes + 1023) / 1024 * 1024; }
int parts_for_prompt(int tokens) { return tokens <= kernel_path().most_split_tokens ? 2 : 1; }
TileLayout tiles_of(const MatrixLayout& layout) { return TileLayout::of(layout.type, layout.out, layout.in); }

}  // namespace

bool takes_prompt(int tokens) { return tokens >= kernel_path().least_prompt_tokens; }

bool takes_prompt_product(int tokens, std::int64_t rows) {
  constexpr std::int64_t kFewRows = 32 * kItemRows;
  const KernelPath path = kernel_path();
  return takes_prompt(tokens) &&
         (tokens <= path.most_split_tokens || tokens > path.most_sliced_tokens || rows > kFewRows);
}

void prompt_products(Cuda& cuda, Rows x, int tokens, const PromptPart* parts, int count, bool accumulates) {
  if (takes_cublas(parts, count, tokens)) return cublas_products(cuda, x, tokens, parts, count, accumulates);
  count_dense(false, count);
  const MatrixLayout& first = parts[0].layout;
  PromptGemm gemm{};
  gemm.x = rows_for(tiles_of(first), (tokens + 7) / 8 * 8, parts_for_prompt(tokens));
  gemm.x.data = static_cast<unsigned char*>(cuda.state().scratch(static_cast<std::size_t>(gemm.x.bytes())));
  gather_rows(cuda, x, tokens, static_cast<int>(first.in), nullptr, 1, gemm.x);
  gemm.tokens = tokens;
  gemm.entries = 1;
  gemm.accumulates = accumulates;
  for (int i = 0; i < count; ++i) add_part(gemm, parts[i].layout, parts[i].data, parts[i].bias, parts[i].y);
  gemm.most_columns = most_columns_of_all(cuda, gemm.x.parts, tokens, gemm.row_items);
  prompt_gemm(cuda, first.type, gemm);
}

void prompt_ffn(Cuda& cuda, const PromptFfn& op) {
  const PromptShape shape{op.tokens, op.k, op.experts};
  const bool is_routed = op.experts > 0;
  if (!is_routed) count_dense(false, 3);
  const int capacity = is_routed ? shape.rows() : (op.tokens + 7) / 8 * 8;
  const int parts = parts_for_prompt(op.tokens);
  PromptRows x = rows_for(tiles_of(op.gate), capacity, parts);
  PromptRows activated = rows_for(tiles_of(op.down), capacity, parts);
  const std::int64_t lists = is_routed ? padded(static_cast<std::int64_t>(shape.bytes())) : 0;
  auto* scratch = static_cast<unsigned char*>(
      cuda.state().scratch(static_cast<std::size_t>(lists + padded(x.bytes()) + activated.bytes())));
  x.data = scratch + lists;
  activated.data = x.data + padded(x.bytes());
  const int most_columns = is_routed ? most_columns_for(cuda, parts, op.tokens)
                                     : most_columns_of_all(cuda, parts, op.tokens, activated.blocks);
  PromptPlan plan{};
  if (is_routed) {
    plan = place_plan(scratch, shape);
    plan_prompt(cuda, op.ids, op.ids_stride, op.slot_of_expert, shape, most_columns, plan);
  }
  const PromptPlan* rows_of_experts = is_routed ? &plan : nullptr;
  gather_rows(cuda, op.x, op.tokens, static_cast<int>(op.gate.in), rows_of_experts, op.k, x);

  PromptGemm gemm{};
  gemm.x = x;
  gemm.host_plan = rows_of_experts;
  gemm.tokens = op.tokens;
  gemm.entries = is_routed ? shape.entries() : 1;
  gemm.slot_bytes = op.slot_bytes;
  gemm.most_columns = most_columns;
  gemm.is_gated = true;
  gemm.activated = activated;
  add_part(gemm, op.gate, op.gate_data, nullptr, {});
  add_part(gemm, op.up, op.up_data, nullptr, {});
  prompt_gemm(cuda, op.gate.type, gemm);
  if (op.after_gate_up != nullptr) (*op.after_gate_up)();

  gemm.x = activated;
  gemm.is_gated = false;
  gemm.parts = 0;
  gemm.row_items = 0;
  gemm.accumulates = op.accumulates;
  add_part(gemm, op.down, op.down_data, nullptr, op.y);
  prompt_gemm(cuda, op.down.type, gemm);
}

}  // namespace moetune::cuda
