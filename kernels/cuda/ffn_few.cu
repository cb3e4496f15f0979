#include "kernels/cuda/ffn_few.cuh"

#include "kernels/cuda/few_plan.cuh"
#include "kernels/cuda/few_product.cuh"

namespace moetune::cuda {
namespace {

// Where the slot of a choice starts; null: not in this wave.
__device__ __forceinline__ const unsigned char* slot_of(const FfnWork& work, const unsigned char* slots,
                                                        int choice) {
  if (work.entries.kind == FfnEntries::Kind::everyone) return slots;
  const int expert = work.entries.ids[choice];  // -1: none
  const int slot = expert < 0 ? -1 : work.entries.slot_of_expert[expert];
  return slot < 0 ? nullptr : slots + slot * work.slot_bytes;
}

// Blocks in y: choices; in x: `tiles_each` neighbouring tiles. A warp takes every `warps`th chunk of a tile
// of gate and of the one of up that goes with it. brings_down: the weights of down go into the L2 cache when
// those of gate and up have come.
template <NumberType type>
__global__ void __launch_bounds__(32 * kGateWarps, kGateBlocksEach)
    gate_up_few(const __grid_constant__ FfnWork work, FewShape shape, int steps, int tiles_each,
                bool brings_down) {
  extern __shared__ __align__(128) unsigned char shared[];
  using Held = HeldChunk<type>;
  constexpr int kTurn = kHeld / 2;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const auto choice = static_cast<int>(blockIdx.y);
  const int tokens = shape.tokens;
  const int chunks = work.gate.chunks;
  const int first = static_cast<int>(blockIdx.x) * tiles_each;
  const int end = min(first + tiles_each, (work.gate.out + 15) / 16);
  const std::int64_t up_from_gate = work.up.data - work.gate.data;
  wait_for_previous();
  let_next_start();  // only now: who chose whom is settled for down, which asks before it waits
  const unsigned char* slot = slot_of(work, work.gate.data, choice);
  if (slot == nullptr) return;
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
  FewColumns<type> columns(shared, shape);
  columns.template stage<2>(
      work.gate.in, [&](int token, int) { return static_cast<const float*>(work.x.row(token)); },
      [](int, int) { return 1.0F; });
  __syncthreads();
  // Of a warp: gate, then up, (token, row). Twice: one is read while the other is written.
  auto* sums = reinterpret_cast<float*>(shared + shape.bytes());
  const int sums_of_warp = 2 * tokens * 16;
  for (int tile = first; tile < end; ++tile) {
    FewSums<type> gate_sums;
    FewSums<type> up_sums;
    int chunk = warp;
    for (int step = 0; step < steps; step += kTurn) {
#pragma unroll
      for (int i = 0; i < kTurn; ++i) {
        if (chunk < chunks) {
          typename FewColumns<type>::Fragment x;
          columns.load(x, chunk);
          gate[i].multiply(gate_sums, x);
          up[i].multiply(up_sums, x);
        }
        chunk += warps;
        fetch(i);
      }
    }
    if (brings_down && tile == end - 1) {
      const unsigned char* down = slot + (work.down.data - work.gate.data);
      const std::int64_t bytes = (work.down.out + 15) / 16 * work.down.tile_bytes;
      for (std::int64_t from = std::int64_t{blockIdx.x * blockDim.x + threadIdx.x} * 128; from < bytes;
           from += std::int64_t{gridDim.x * blockDim.x} * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(down + from));
    }
    float* of_tile = sums + (tile - first) % 2 * warps * sums_of_warp;
    if (lane % 4 < tokens)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* to = of_tile + warp * sums_of_warp + lane % 4 * 16 + lane / 4 + 8 * half;
        to[0] = gate_sums.of(half);
        to[tokens * 16] = up_sums.of(half);
      }
    __syncthreads();
    if (warp != (tile - first) % warps) continue;
    for (int i = lane; i < tokens * 16; i += 32) {
      float gate_sum = 0.0F;
      float up_sum = 0.0F;
#pragma unroll 4
      for (int from = 0; from < warps; ++from) {
        gate_sum += of_tile[from * sums_of_warp + i];
        up_sum += of_tile[from * sums_of_warp + tokens * 16 + i];
      }
      const int pair = choice + i / 16;  // there are several choices or several tokens, not both
      reinterpret_cast<float*>(work.activated)[pair * work.activated_stride + tile * 16 + i % 16] =
          gate_sum / (1.0F + __expf(-gate_sum)) * up_sum;
    }
  }
}

// A block takes `tiles_each` neighbouring tiles of the result and all choices: warp (choice, split) has its
// part of that expert's chunks.
template <NumberType type>
__global__ void __launch_bounds__(32 * kDownWarps)
    down_few(const __grid_constant__ FfnWork work, FewShape shape, int splits, int tiles_each, Rows weights,
             Rows y) {
  extern __shared__ __align__(128) unsigned char shared[];
  using Held = HeldChunk<type>;
  const FfnTiles& tiles = work.down;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int choice = warp / splits;
  const int tokens = shape.tokens;
  const int each = (tiles.chunks + splits - 1) / splits;
  const int first_chunk = (warp - choice * splits) * each;
  const int mine = min(each, tiles.chunks - first_chunk);  // may be none
  const int steps = (each + kHeld - 1) / kHeld * kHeld;
  const int first = static_cast<int>(blockIdx.x) * tiles_each;
  const int end = min(first + tiles_each, (tiles.out + 15) / 16);
  // Who goes where was settled before gate_up let us start, and weights are never written: they are on their
  // way while gate_up still runs. Only the activations must be waited for.
  const unsigned char* slot = choice < work.entries.count ? slot_of(work, tiles.data, choice) : nullptr;
  const unsigned char* row_scales =
      slot + first * tiles.tile_bytes + std::int64_t{tiles.chunks} * Held::kBytes;
  const unsigned char* at = slot + first * tiles.tile_bytes + first_chunk * Held::kBytes + lane * 16;
  int ahead_tile = slot != nullptr ? first : end;
  int ahead_step = 0;
  Held held[kHeld];
  const auto fetch = [&](int i) {
    if (ahead_tile < end && ahead_step + i < mine) held[i].fetch(at + i * Held::kBytes, row_scales);
    if (i < kHeld - 1) return;
    at += kHeld * Held::kBytes;
    ahead_step += kHeld;
    if (ahead_step < steps) return;
    at += tiles.tile_bytes - steps * Held::kBytes;
    row_scales += tiles.tile_bytes;
    ahead_step = 0;
    ++ahead_tile;
  };
#pragma unroll
  for (int i = 0; i < kHeld; ++i) fetch(i);
  let_next_start();
  wait_for_previous();
  FewColumns<type> columns(shared, shape);
  const float my_weight = weights.data != nullptr && lane < work.entries.count ? weights.row(0)[lane] : 1.0F;
  columns.template stage<2>(
      tiles.in,
      [&](int token, int of) {
        return reinterpret_cast<const float*>(work.activated) + (token + of) * work.activated_stride;
      },
      [&](int, int of) { return __shfl_sync(0xFFFFFFFFU, my_weight, of); });
  __syncthreads();
  auto* sums = reinterpret_cast<float*>(shared + shape.bytes());
  const int first_unit = choice * columns.units_of_row() + first_chunk;
  for (int tile = first; tile < end; ++tile) {
    const int row = tile * 16 + thread % 16;
    float* to = thread < tokens * 16 && row < tiles.out ? y.row(thread / 16) + row : nullptr;
    const float before = to != nullptr ? *to : 0.0F;  // asked for now: it would be waited for at the end
    FewSums<type> sum;
    for (int step = 0; step < steps; step += kHeld) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        if (slot != nullptr && step + i < mine) {
          typename FewColumns<type>::Fragment x;
          columns.load(x, first_unit + step + i);
          held[i].multiply(sum, x);
        }
        fetch(i);
      }
    }
    float* of_tile = sums + (tile - first) % 2 * warps * tokens * 16;
    if (lane % 4 < tokens)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        of_tile[(warp * tokens + lane % 4) * 16 + lane / 4 + 8 * half] = sum.of(half);
    __syncthreads();
    if (to == nullptr) continue;
    float total = 0.0F;
#pragma unroll 4
    for (int from = 0; from < warps; ++from) total += of_tile[from * tokens * 16 + thread];
    *to = before + total;
  }
}

}  // namespace

bool is_few(NumberType type, const FfnWork& work) {
  if (!down_joins(work.entries) || work.entries.tokens > kFewTokens || work.entries.count > kDownWarps)
    return false;
  if (work.gate.in % 4 != 0 || work.down.in % 4 != 0 || work.x.stride % 4 != 0) return false;
  return few_shape_of(type, work, false).bytes() <= kMostSharedBytes &&
         few_shape_of(type, work, true).bytes() <= kMostSharedBytes;
}

void run_gate_up_few(Cuda& cuda, NumberType type, const FfnWork& work) {
  // What the memory can deliver between the last weights of gate and up and the first of down; more would
  // only be in the way.
  constexpr std::int64_t kMostBrought = 10 << 20;
  const FewShape shape = few_shape_of(type, work, false);
  const int tiles = (work.gate.out + 15) / 16;
  const int choices = work.entries.count;
  const GateShape gate = few_gate_shape(work.gate.chunks, tiles, choices, cuda.state().multiprocessors);
  const bool brings_down = (work.down.out + 15) / 16 * work.down.tile_bytes * choices <= kMostBrought;
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    launch(gate_up_few<kType>,
           {.grid = dim3(blocks_for(tiles, gate.tiles_each), static_cast<unsigned>(choices)),
            .threads = 32 * gate.warps,
            .shared_bytes = shape.bytes() + 2 * gate.warps * 2 * shape.tokens * 64},
           cuda.state().stream, true, work, shape, gate.steps, gate.tiles_each, brings_down);
  });
}

void run_down_few(Cuda& cuda, NumberType type, const FfnWork& work, Rows weights, Rows y) {
  const FewShape shape = few_shape_of(type, work, true);
  const DownShape down = few_down_shape(work, shape.tokens, cuda.state().multiprocessors);
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    launch(down_few<kType>,
           {.grid = dim3(blocks_for(work.down.out, 16 * down.tiles_each)),
            .threads = 32 * down.warps,
            .shared_bytes = shape.bytes() + 2 * down.warps * shape.tokens * 64},
           cuda.state().stream, true, work, shape, down.splits, down.tiles_each, weights, y);
  });
}

}  // namespace moetune::cuda
