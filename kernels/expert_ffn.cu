// Which entries there are and where intermediate results lie; the kernels are in cuda/ffn_tiles.cu.
#include "kernels/expert_ffn.h"

#include "kernels/cuda/everyone.cuh"
#include "kernels/cuda/ffn_beside.cuh"
#include "kernels/cuda/ffn_few.cuh"
#include "kernels/cuda/ffn_many.cuh"
#include "kernels/cuda/ffn_tiles.cuh"
#include "kernels/cuda/prompt_ops.cuh"
#include "kernels/kernel_path.h"

namespace moetune {
namespace {

using cuda::FfnEntries;
using cuda::FfnTiles;
using cuda::FfnWork;
using cuda::Rows;

cuda::AssignmentShape assignment_shape(const ExpertFfn& op) {
  return {static_cast<int>(op.ids.dim(0)), static_cast<int>(op.ids.dim(1)),
          static_cast<int>(op.slot_of_expert.dim(0))};
}

// Everything but what lies in scratch memory.
FfnWork described(const ExpertFfn& op) {
  const auto* slots = static_cast<const unsigned char*>(op.slots);
  const cuda::AssignmentShape shape = assignment_shape(op);
  FfnWork work{};
  work.x = cuda::rows_of(op.x);
  work.slot_bytes = op.layout.bytes;
  work.gate = FfnTiles::of(op.layout.gate, slots);
  work.up = FfnTiles::of(op.layout.up, slots + op.layout.up_offset);
  work.down = FfnTiles::of(op.layout.down, slots + op.layout.down_offset);
  work.activated_stride = cuda::padded_width(op.layout.down);
  work.entries = {.kind = shape.tokens == 1 ? FfnEntries::Kind::one_token : FfnEntries::Kind::by_expert,
                  .count = shape.tokens == 1 ? shape.k : shape.entries(),  // one token: an entry a choice
                  .tokens = shape.tokens,
                  .k = shape.k,
                  .sorted = {},
                  .ids = op.ids.i32(),
                  .slot_of_expert = op.slot_of_expert.i32(),
                  .experts = shape.experts};
  return work;
}

// Takes scratch memory and sorts the assignments where there is more than one token.
FfnWork prepare(Cuda& cuda, const ExpertFfn& op) {
  if (op.layout.gate.packing != Packing::tiles)
    throw std::invalid_argument(
        "experts on a GPU must lie in tiles; f32 experts cannot (accepted: f16, bf16, fp8, int8, int4, "
        "int4_g32, mxfp4)");
  FfnWork work = described(op);
  const cuda::AssignmentShape shape = assignment_shape(op);
  const std::size_t lists = (shape.bytes() + 255) / 256 * 256;
  const std::size_t activated =
      static_cast<std::size_t>(shape.pairs() * work.activated_stride) * sizeof(float);
  const std::size_t x16 =
      static_cast<std::size_t>(shape.tokens * cuda::padded_width(op.layout.gate)) * sizeof(__nv_bfloat16);
  auto* scratch = static_cast<unsigned char*>(cuda.state().scratch(lists + activated + x16));
  work.activated = scratch + lists;
  work.x16 = reinterpret_cast<__nv_bfloat16*>(scratch + lists + activated);
  if (work.entries.kind != FfnEntries::Kind::one_token) {
    work.entries.sorted = cuda::place_assignments(scratch, shape);
    cuda::sort_assignments(cuda, op.ids.i32(), op.ids.stride(0), op.slot_of_expert.i32(), shape,
                           work.entries.sorted);
  }
  return work;
}

bool is_many(const ExpertFfn& op, const FfnWork& work) {
  return op.layout.gate.type == op.layout.down.type && cuda::is_many(op.layout.gate.type, work);
}

// Few tokens for every expert, and weights of 4 bits: reading each once and taking it apart costs less than
// rows gathered for a product that is tiled in both directions.
bool stays_many(const ExpertFfn& op) {
  return op.layout.gate.packing == Packing::tiles && op.ids.dim(0) <= kernel_path().most_many_tokens &&
         cuda::has_nibbles(op.layout.gate.type) && is_many(op, described(op));
}

// A step of many tokens: rows of all choices at once. False: it is not one, or its tensors lie apart.
bool run_as_prompt(Cuda& cuda, const ExpertFfn& op) {
  const auto tokens = static_cast<int>(op.ids.dim(0));
  const auto k = static_cast<int>(op.ids.dim(1));
  const ExpertLayout& layout = op.layout;
  if (!cuda::takes_prompt(tokens) || stays_many(op) || layout.gate.packing != Packing::tiles ||
      layout.up.type != layout.gate.type || layout.down.type != layout.gate.type ||
      op.rows.stride(0) != k * op.rows.stride(1))
    return false;
  const auto* slots = static_cast<const unsigned char*>(op.slots);
  cuda::prompt_ffn(cuda, {.x = cuda::rows_of(op.x),
                          .tokens = tokens,
                          .gate = layout.gate,
                          .up = layout.up,
                          .down = layout.down,
                          .gate_data = slots,
                          .up_data = slots + layout.up_offset,
                          .down_data = slots + layout.down_offset,
                          .slot_bytes = layout.bytes,
                          .k = k,
                          .experts = static_cast<int>(op.slot_of_expert.dim(0)),
                          .ids = op.ids.i32(),
                          .ids_stride = op.ids.stride(0),
                          .slot_of_expert = op.slot_of_expert.i32(),
                          .y = {op.rows.f32(), op.rows.stride(1)},
                          .after_gate_up = op.after_gate_up});
  return true;
}

void tell_gate_up_is_enqueued(const ExpertFfn& op) {
  if (op.after_gate_up != nullptr) (*op.after_gate_up)();
}

void run_many(Cuda& cuda, const ExpertFfn& op, const FfnWork& work) {
  cuda::run_gate_up_many(cuda, op.layout.gate.type, work);
  tell_gate_up_is_enqueued(op);
  cuda::run_down_many(cuda, op.layout.down.type, work, op.rows.f32(), op.rows.stride(0), op.rows.stride(1));
}

void run_rows(Cuda& cuda, const ExpertFfn& op, const FfnWork& work) {
  cuda::run_down(cuda, op.layout.down.type, work, op.rows.f32(), op.rows.stride(0), op.rows.stride(1));
}

// One token: shared experts in the kernels of the routed ones. False: not this op, and nothing was done.
bool run_beside(Cuda& cuda, const MoeFfn& op) {
  const ExpertFfn& ffn = op.routed.ffn;
  const NumberType type = ffn.layout.gate.type;
  const NumberType shared_type = op.shared.gate.layout.type;
  if (ffn.x.dim(0) != 1 || ffn.layout.gate.packing != Packing::tiles || ffn.layout.down.type != type ||
      !cuda::is_uniform(op.shared) || cuda::takes_prompt(1))
    return false;
  FfnWork work = described(ffn);
  FfnWork shared = cuda::everyone_takes(op.shared);
  if (!cuda::takes_shared_beside(type, work, shared_type, shared)) return false;
  const std::int64_t of_routed = work.pairs() * work.activated_stride;
  work.activated = static_cast<unsigned char*>(
      cuda.state().scratch(static_cast<std::size_t>(of_routed + shared.activated_stride) * sizeof(float)));
  shared.activated = work.activated + of_routed * static_cast<std::int64_t>(sizeof(float));
  work.is_activated_f32 = shared.is_activated_f32 = true;
  cuda::run_gate_up_beside(cuda, type, work, shared_type, shared);
  tell_gate_up_is_enqueued(ffn);
  cuda::run_down_beside(cuda, type, work, shared_type, shared, cuda::rows_of(op.routed.weights),
                        cuda::rows_of(op.routed.y));
  return true;
}

// Four columns a thread, where they lie together.
__global__ void combine_fours(Rows rows, std::int64_t choice_stride, int k, Rows weights, Rows y,
                              std::int64_t hidden) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4;
  if (column >= hidden) return;
  const std::int64_t token = blockIdx.y;
  auto* to = reinterpret_cast<float4*>(y.row(token) + column);
  float4 sum{};
#pragma unroll 4
  for (int choice = 0; choice < k; ++choice) {
    const float weight = weights.row(token)[choice];
    float4 row = *reinterpret_cast<const float4*>(rows.row(token) + choice * choice_stride + column);
    if (weight == 0.0F) row = {};  // that of no expert was never written
    sum.x += weight * row.x;
    sum.y += weight * row.y;
    sum.z += weight * row.z;
    sum.w += weight * row.w;
  }
  const float4 before = *to;
  *to = {before.x + sum.x, before.y + sum.y, before.z + sum.z, before.w + sum.w};
}

__global__ void combine(Rows rows, std::int64_t choice_stride, int k, Rows weights, Rows y,
                        std::int64_t hidden) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= hidden) return;
  const std::int64_t token = blockIdx.y;
  float sum = 0.0F;
  for (int choice = 0; choice < k; ++choice) {
    const float weight = weights.row(token)[choice];
    const float value = rows.row(token)[choice * choice_stride + column];
    sum += weight == 0.0F ? 0.0F : weight * value;  // the row of no expert was never written
  }
  y.row(token)[column] += sum;
}

}  // namespace

void run(Cuda& cuda, const ExpertFfn& op) {
  if (op.x.dim(0) == 0 || run_as_prompt(cuda, op)) return;
  FfnWork work = prepare(cuda, op);
  if (is_many(op, work)) return run_many(cuda, op, work);
  // Alone, down writes a row for every choice: it does not join.
  work.is_activated_f32 =
      work.entries.kind != FfnEntries::Kind::one_token && cuda::activates_f32(op.layout.down.type, work);
  cuda::run_gate_up(cuda, op.layout.gate.type, work);
  tell_gate_up_is_enqueued(op);
  run_rows(cuda, op, work);
}

void run(Cuda& cuda, const RoutedFfn& op) {
  if (op.y.dim(0) == 0) return;
  if (run_as_prompt(cuda, op.ffn))
    return run(cuda, Combine{.rows = op.ffn.rows, .weights = op.weights, .y = op.y});
  FfnWork work = prepare(cuda, op.ffn);
  if (const NumberType type = op.ffn.layout.gate.type;
      type == op.ffn.layout.down.type && cuda::is_few(type, work)) {
    work.is_activated_f32 = true;
    cuda::run_gate_up_few(cuda, type, work);
    tell_gate_up_is_enqueued(op.ffn);
    return cuda::run_down_few(cuda, type, work, cuda::rows_of(op.weights), cuda::rows_of(op.y));
  }
  if (is_many(op.ffn, work)) {
    run_many(cuda, op.ffn, work);
    return run(cuda, Combine{.rows = op.ffn.rows, .weights = op.weights, .y = op.y});
  }
  work.is_activated_f32 = cuda::activates_f32(op.ffn.layout.down.type, work);
  cuda::run_gate_up(cuda, op.ffn.layout.gate.type, work);
  tell_gate_up_is_enqueued(op.ffn);
  if (cuda::down_joins(work.entries))
    return cuda::run_down_joined(cuda, op.ffn.layout.down.type, work, cuda::rows_of(op.weights),
                                 cuda::rows_of(op.y));
  run_rows(cuda, op.ffn, work);
  run(cuda, Combine{.rows = op.ffn.rows, .weights = op.weights, .y = op.y});
}

void run(Cuda& cuda, const MoeFfn& op) {
  if (op.routed.y.dim(0) == 0 || run_beside(cuda, op)) return;
  run(cuda, op.routed);
  if (op.before_shared != nullptr) (*op.before_shared)();
  run(cuda, op.shared);
}

void run(Cuda& cuda, const Combine& op) {
  const std::int64_t hidden = op.y.dim(1);
  if (op.rows.dim(0) == 0) return;
  const auto aligned = [](const Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.data()) % 16 == 0 && tensor.stride(0) % 4 == 0;
  };
  const bool by_fours = hidden % 4 == 0 && op.rows.stride(1) % 4 == 0 && aligned(op.rows) && aligned(op.y);
  cuda::launch(
      by_fours ? combine_fours : combine,
      {.grid = dim3(cuda::blocks_for(hidden, by_fours ? 1024 : 256), static_cast<unsigned>(op.rows.dim(0))),
       .threads = 256},
      cuda.state().stream, true, cuda::rows_of(op.rows), op.rows.stride(1), static_cast<int>(op.rows.dim(1)),
      cuda::rows_of(op.weights), cuda::rows_of(op.y), hidden);
}

}  // namespace moetune
