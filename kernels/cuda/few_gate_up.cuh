// Gate, up and activation of one token's choices, or of up to four tokens that all take the same weights, by
// whole blocks. Start at gate_up_tiles().
#pragma once

#include "kernels/cuda/few_product.cuh"
#include "kernels/cuda/few_slots.cuh"
#include "kernels/few_plan.h"

namespace moetune::cuda {

// What some blocks of a kernel work on.
struct GatePart {
  FfnWork work;
  FewShape shape;
  int steps;          // GateShape
  int tiles_each;     // GateShape
  int blocks;         // of a choice
  int brought_ahead;  // bytes of a block's gate, and of its up, that go into the L2 cache while it waits
  int brought_down;   // bytes of a choice's down that do when its gate and up have come
};

// Block `block` of a choice takes `tiles_each` neighbouring tiles; a warp every `warps`th chunk of a tile of
// gate and of the one of up that goes with it. chooses: the token's experts; else everyone takes the same.
template <NumberType type>
__device__ __forceinline__ void gate_up_tiles(const GatePart& part, bool chooses, int choice, int block,
                                              unsigned char* shared) {
  using Held = HeldChunk<type>;
  constexpr int kTurn = GateShape::kTurn;
  const FfnWork& work = part.work;
  const FewShape& shape = part.shape;
  const int steps = part.steps;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int tokens = shape.tokens;
  const int chunks = work.gate.chunks;
  const int first = block * part.tiles_each;
  const int end = min(first + part.tiles_each, (work.gate.out + 15) / 16);
  const std::int64_t up_from_gate = work.up.data - work.gate.data;
  constexpr int kTogether = 2;
  FewColumns<type> columns(shared, shape, warp, warps);
  typename FewColumns<type>::template Asked<kTogether> asked_x;
  const auto x_of = [&](int token) { return static_cast<const float*>(work.x.row(token)); };
  const unsigned char* slot = work.gate.data;
  // Where everyone takes the same weights they are on their way while the kernel before us ends.
  if (chooses) {
    wait_for_previous();
    let_next_start();  // only now: who chose whom is settled for down, which asks before it waits
    const SlotQuestion asked = ask_slot(work.entries, choice);
    // Activations before weights: behind them, they would come when the memory has delivered all that was
    // asked for.
    columns.ask(asked_x, warp, work.gate.in, x_of);
    slot = slot_of(asked, work, work.gate.data);
    if (slot == nullptr) return;
  }
  const unsigned char* at = slot + first * work.gate.tile_bytes + warp * Held::kBytes + lane * 16;
  const unsigned char* row_scales = slot + first * work.gate.tile_bytes + std::int64_t{chunks} * Held::kBytes;
  int ahead_tile = first;
  int ahead_chunk = warp;
  Held gate[kTurn];
  Held up[kTurn];
  const auto fetch = [&](int i) {
    if (ahead_tile < end && ahead_chunk < chunks) {
      gate[i].fetch(at, row_scales);
      up[i].fetch(at + up_from_gate, row_scales + up_from_gate);
    }
    at += warps * Held::kBytes;
    ahead_chunk += warps;
    if (i < kTurn - 1 || ahead_chunk < steps * warps) return;
    at += work.gate.tile_bytes - steps * warps * Held::kBytes;
    row_scales += work.gate.tile_bytes;
    ahead_chunk = warp;
    ++ahead_tile;
  };
#pragma unroll
  for (int i = 0; i < kTurn; ++i) fetch(i);
  if (!chooses) {
    const auto bytes = static_cast<int>((end - first) * work.gate.tile_bytes);
    for (int from = static_cast<int>(threadIdx.x) * 128; from < min(bytes, part.brought_ahead);
         from += static_cast<int>(blockDim.x) * 128) {
      bring_to_l2(slot + first * work.gate.tile_bytes + from);
      bring_to_l2(slot + first * work.gate.tile_bytes + up_from_gate + from);
    }
    wait_for_previous();
    let_next_start();
    columns.ask(asked_x, warp, work.gate.in, x_of);
  }
  columns.put(asked_x, warp, [](int) { return 1.0F; });
  columns.template stage<1>(warp + kTogether * warps, work.gate.in, x_of, [](int) { return 1.0F; });
  __syncthreads();
  // Of a tile, of a warp: gate, then up, (token, row). All tiles have their own: nobody waits before the end.
  auto* sums = reinterpret_cast<float*>(shared + shape.bytes());
  const int sums_of_warp = 2 * tokens * 16;
  // Of the next chunk: shared memory answers while more weights are asked for.
  typename FewColumns<type>::Fragment x;
  const int first_chunk = min(warp, chunks - 1);
  columns.load(x, first_chunk);
  for (int tile = first; tile < end; ++tile) {
    FewSums<type> gate_sums;
    FewSums<type> up_sums;
    int chunk = warp;
    for (int step = 0; step < steps; step += kTurn) {
#pragma unroll
      for (int i = 0; i < kTurn; ++i) {
        if (chunk < chunks) {
          gate[i].multiply(gate_sums, x);
          up[i].multiply(up_sums, x);
        }
        chunk += warps;
        columns.load(x, chunk < chunks ? chunk : first_chunk);
        fetch(i);
      }
    }
    float* of_tile = sums + (tile - first) * warps * sums_of_warp;
    if (lane % 4 < tokens)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* to = of_tile + warp * sums_of_warp + lane % 4 * 16 + lane / 4 + 8 * half;
        to[0] = gate_sums.of(half);
        to[tokens * 16] = up_sums.of(half);
      }
  }
  if (part.brought_down > 0) {
    const unsigned char* down = slot + (work.down.data - work.gate.data);
    for (int from = (block * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * 128;
         from < part.brought_down; from += part.blocks * static_cast<int>(blockDim.x) * 128)
      bring_to_l2(down + from);
  }
  __syncthreads();
  for (int tile = first + warp; tile < end; tile += warps)
    for (int i = lane % 16; i < tokens * 16; i += 16) {  // half of the lanes add gate up, the others up
      const float* from = sums + (tile - first) * warps * sums_of_warp + lane / 16 * tokens * 16 + i;
      float sum = 0.0F;
#pragma unroll 8
      for (int other = 0; other < warps; ++other) sum += from[other * sums_of_warp];
      const float up_sum = __shfl_down_sync(0xFFFFFFFFU, sum, 16);
      const int pair = choice + i / 16;  // there are several choices or several tokens, not both
      if (lane < 16)
        reinterpret_cast<float*>(work.activated)[pair * work.activated_stride + tile * 16 + i % 16] =
            sum / (1.0F + __expf(-sum)) * up_sum;
    }
}

}  // namespace moetune::cuda
