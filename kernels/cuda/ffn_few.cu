#include "kernels/cuda/ffn_few.cuh"

#include "kernels/cuda/few_plan.cuh"
#include "kernels/cuda/few_product.cuh"
#include "kernels/few_plan.h"

namespace moetune::cuda {
namespace {
constexpr int kHeld = 4;                  // chunks of down that a warp has under way
constexpr int kBroughtBytes = 16 * 1024;  // of a warp's part of down that it has brought into the L2 cache

__device__ __forceinline__ int load_now(const std::int32_t* from) {
  int v;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
}

// Where the slot of a choice starts, asked for and found out later: with few experts the whole table is asked
// for at once, so that nothing waits for the expert's id before it asks for its slot.
struct SlotQuestion {
  static constexpr int kMostExperts = 128;
  int expert;
  int4 slots;  // of the experts lane, lane + 32, ...
};
__device__ __forceinline__ SlotQuestion ask_slot(const FfnEntries& entries, int choice) {
  SlotQuestion asked{-1, {-1, -1, -1, -1}};
  if (entries.kind == FfnEntries::Kind::everyone) return asked;
  asked.expert = load_now(entries.ids + choice);
  if (entries.experts > SlotQuestion::kMostExperts) return asked;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const std::int32_t* table = entries.slot_of_expert + lane;
  if (lane < entries.experts) asked.slots.x = load_now(table);
  if (lane + 32 < entries.experts) asked.slots.y = load_now(table + 32);
  if (lane + 64 < entries.experts) asked.slots.z = load_now(table + 64);
  if (lane + 96 < entries.experts) asked.slots.w = load_now(table + 96);
  return asked;
}
// By whole warps. null: dropped, or not in this wave.
__device__ __forceinline__ const unsigned char* slot_of(const SlotQuestion& asked, const FfnWork& work,
                                                        const unsigned char* slots) {
  if (work.entries.kind == FfnEntries::Kind::everyone) return slots;
  if (asked.expert < 0) return nullptr;
  int slot = 0;
  if (work.entries.experts > SlotQuestion::kMostExperts) {
    slot = work.entries.slot_of_expert[asked.expert];
  } else {
    const int part = asked.expert / 32;
    slot = part == 0 ? asked.slots.x : part == 1 ? asked.slots.y : part == 2 ? asked.slots.z : asked.slots.w;
    slot = __shfl_sync(0xFFFFFFFFU, slot, asked.expert % 32);
  }
  return slot < 0 ? nullptr : slots + slot * work.slot_bytes;
}

// Blocks in y: choices; in x: `tiles_each` neighbouring tiles. A warp takes every `warps`th chunk of a tile
// of gate and of the one of up that goes with it. brings_down: the weights of down go into the L2 cache when
// those of gate and up have come.
template <NumberType type>
__global__ void __launch_bounds__(32 * GateShape::kMostWarps, GateShape::kBlocksEach)
    gate_up_few(const __grid_constant__ FfnWork work, FewShape shape, int steps, int tiles_each,
                bool brings_down) {
  extern __shared__ __align__(128) unsigned char shared[];
  using Held = HeldChunk<type>;
  constexpr int kTurn = GateShape::kTurn;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const auto choice = static_cast<int>(blockIdx.y);
  const int tokens = shape.tokens;
  const int chunks = work.gate.chunks;
  const int first = static_cast<int>(blockIdx.x) * tiles_each;
  const int end = min(first + tiles_each, (work.gate.out + 15) / 16);
  const std::int64_t up_from_gate = work.up.data - work.gate.data;
  constexpr int kTogether = 2;
  FewColumns<type> columns(shared, shape);
  typename FewColumns<type>::template Asked<kTogether> asked_x;
  const auto x_of = [&](int token) { return static_cast<const float*>(work.x.row(token)); };
  const unsigned char* slot = work.gate.data;
  // Where everyone takes the same weights they are on their way while the kernel before us ends.
  const bool chooses = work.entries.kind != FfnEntries::Kind::everyone;
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
  if (brings_down) {
    const unsigned char* down = slot + (work.down.data - work.gate.data);
    const std::int64_t bytes = (work.down.out + 15) / 16 * work.down.tile_bytes;
    for (std::int64_t from = std::int64_t{blockIdx.x * blockDim.x + threadIdx.x} * 128; from < bytes;
         from += std::int64_t{gridDim.x * blockDim.x} * 128)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(down + from));
  }
  __syncthreads();
  for (int tile = first + warp; tile < end; tile += warps)
    for (int i = lane % 16; i < tokens * 16; i += 16) {  // half of the lanes add gate up, the others up
      const float* from = sums + (tile - first) * warps * sums_of_warp + lane / 16 * tokens * 16 + i;
      float sum = 0.0F;
#pragma unroll 8
      for (int part = 0; part < warps; ++part) sum += from[part * sums_of_warp];
      const float up_sum = __shfl_down_sync(0xFFFFFFFFU, sum, 16);
      const int pair = choice + i / 16;  // there are several choices or several tokens, not both
      if (lane < 16)
        reinterpret_cast<float*>(work.activated)[pair * work.activated_stride + tile * 16 + i % 16] =
            sum / (1.0F + __expf(-sum)) * up_sum;
    }
}

// A block takes `tiles_each` neighbouring tiles of the result and all choices: warp (choice, split) has its
// part of that expert's chunks.
template <NumberType type>
__global__ void __launch_bounds__(32 * DownShape::kMostWarps)
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
  const SlotQuestion asked = ask_slot(work.entries, min(choice, work.entries.count - 1));
  const unsigned char* slot = choice < work.entries.count ? slot_of(asked, work, tiles.data) : nullptr;
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
  // What follows waits in the L2 cache: the memory would rest while activations are staged.
  if (slot != nullptr)
    for (int from = kHeld * Held::kBytes + lane * 128; from < min(mine * Held::kBytes, kBroughtBytes);
         from += 32 * 128)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(slot + first * tiles.tile_bytes +
                                                    first_chunk * Held::kBytes + from));
  let_next_start();
  wait_for_previous();
  // Of a thread: a row and token of every `tiles_at_once`th tile. The first is asked for now: it would be
  // waited for at the end.
  constexpr int kOfTile = kFewTokens * 16;
  const int tiles_at_once = static_cast<int>(blockDim.x) / kOfTile;
  const auto place = [&](int tile) {
    const int row = tile * 16 + thread % 16;
    const int token = thread % kOfTile / 16;
    const bool exists = token < tokens && tile < end && row < tiles.out && thread < tiles_at_once * kOfTile;
    return exists ? y.row(token) + row : nullptr;
  };
  float* to = place(first + thread / kOfTile);
  float before = to != nullptr ? *to : 0.0F;
  FewColumns<type> columns(shared, shape);
  const float my_weight = weights.data != nullptr && lane < work.entries.count ? weights.row(0)[lane] : 1.0F;
  columns.template stage<3>(
      warp, tiles.in,
      [&](int place) {
        return reinterpret_cast<const float*>(work.activated) + place * work.activated_stride;
      },
      [&](int place) { return __shfl_sync(0xFFFFFFFFU, my_weight, place); });
  __syncthreads();
  auto* sums = reinterpret_cast<float*>(shared + shape.bytes());
  const int first_unit = choice * columns.units_of_row() + first_chunk;
  typename FewColumns<type>::Fragment x;
  if (mine > 0 && slot != nullptr) columns.load(x, first_unit);
  for (int tile = first; tile < end; ++tile) {
    FewSums<type> sum;
    for (int step = 0; step < steps; step += kHeld) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        if (slot != nullptr && step + i < mine) {
          held[i].multiply(sum, x);
          columns.load(x, first_unit + (step + i + 1 < mine ? step + i + 1 : 0));
        }
        fetch(i);
      }
    }
    float* of_tile = sums + (tile - first) * warps * tokens * 16;
    if (lane % 4 < tokens)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        of_tile[(warp * tokens + lane % 4) * 16 + lane / 4 + 8 * half] = sum.of(half);
  }
  __syncthreads();
  for (int tile = first + thread / kOfTile; tile < end; tile += tiles_at_once) {
    if (to != nullptr) {
      const float* from = sums + (tile - first) * warps * tokens * 16 + thread % kOfTile;
      float total = 0.0F;
#pragma unroll 4
      for (int part = 0; part < warps; ++part) total += from[part * tokens * 16];
      *to = before + total;
    }
    to = place(tile + tiles_at_once);
    before = to != nullptr ? *to : 0.0F;
  }
}

}  // namespace

bool is_few(NumberType type, const FfnWork& work) {
  if (!down_joins(work.entries) || work.entries.tokens > kFewTokens ||
      work.entries.count > DownShape::kMostWarps)
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
  const GateShape gate =
      few_gate_shape(work.gate.chunks, tiles, choices,
                     {cuda.state().multiprocessors,
                      most_tiles_beside(shape, GateShape::kMostWarps * 2 * shape.tokens * 64)});
  const bool brings_down = (work.down.out + 15) / 16 * work.down.tile_bytes * choices <= kMostBrought;
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    launch(gate_up_few<kType>,
           {.grid = dim3(blocks_for(tiles, gate.tiles_each), static_cast<unsigned>(choices)),
            .threads = 32 * gate.warps,
            .shared_bytes = shape.bytes() + gate.tiles_each * gate.warps * 2 * shape.tokens * 64},
           cuda.state().stream, true, work, shape, gate.steps, gate.tiles_each, brings_down);
  });
}

void run_down_few(Cuda& cuda, NumberType type, const FfnWork& work, Rows weights, Rows y) {
  const FewShape shape = few_shape_of(type, work, true);
  const DownShape down = few_down_shape(
      work.down.chunks, (work.down.out + 15) / 16, work.entries.count,
      {cuda.state().multiprocessors, most_tiles_beside(shape, DownShape::kMostWarps * shape.tokens * 64)});
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    launch(down_few<kType>,
           {.grid = dim3(blocks_for(work.down.out, 16 * down.tiles_each)),
            .threads = 32 * down.warps,
            .shared_bytes = shape.bytes() + down.tiles_each * down.warps * shape.tokens * 64},
           cuda.state().stream, true, work, shape, down.splits, down.tiles_each, weights, y);
  });
}

}  // namespace moetune::cuda
