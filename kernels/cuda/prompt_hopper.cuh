// The products of a prompt with wgmma: one warp fetches weights and activations with bulk copies through a ring of stages, two
// warpgroups of four warps each hold 64 rows of an item's sums. Weights go through registers, where narrow types become bf16
// while the products of the step before are under way. Start at prompt_hopper().
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/prompt_results.cuh"

namespace moetune::cuda {

struct HopperPrompt {
  static constexpr int kThreads = 384;  // two warpgroups that multiply, one of which a warp fetches
  static constexpr int kWorkers = 256;
  static constexpr int kMostStages = 8;
  static constexpr int kFewColumns = 64;  // up to so many an item: another kernel, see work_item()
  static constexpr int kMostBytes = 226 * 1024;  // of shared memory, less what is declared

  // Of one part of a stage's activations: as many rows as an item has columns at most.
  __host__ __device__ static int part_bytes(const PromptGemm& op) { return op.most_columns * kBlockRowBytes; }
  __host__ __device__ static int activated_bytes(const PromptGemm& op) {
    return op.is_gated ? op.activated.parts * part_bytes(op) : 0;
  }
  template <NumberType type>
  __host__ __device__ static int stage_bytes(const PromptGemm& op) {
    return op.x.parts * part_bytes(op) + kItemTiles * TileSteps<type>::kStageBytes;
  }
  // Few columns leave room for more stages, and need them: then weights must arrive at the memory's rate.
  template <NumberType type>
  __host__ __device__ static int stages(const PromptGemm& op) {
    const int fitting = (kMostBytes - 1024 - activated_bytes(op)) / stage_bytes<type>(op);
    return fitting < kMostStages ? fitting : kMostStages;
  }
  template <NumberType type>
  static int shared_bytes(const PromptGemm& op) {
    return 1024 + activated_bytes(op) + stages<type>(op) * stage_bytes<type>(op);
  }
};

#if MOETUNE_HOPPER

// Where a block's stages are, and which is next.
struct HopperRing {
  std::uint32_t blocks;          // activations
  const unsigned char* weights;  // (stages, tiles, bytes)
  std::uint32_t full;            // barriers
  std::uint32_t empty;
  int part_bytes;   // of a part of the activations
  int block_bytes;  // of all parts
  int stages;
  int stage = 0;
  int parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

template <NumberType type>
__device__ __forceinline__ int steps_of(const PromptGemm& op, const PromptItem& item) {
  const PromptMatrix& matrix = op.part[op.is_gated ? 0 : part_of(op, item.row_item)];
  if (op.is_gated && item.row_item * kBlockColumns >= matrix.out) return 0;  // only padding that down will read
  return op.x.blocks;
}

// One warp. A lane a tile, one more for each part of the activations.
template <NumberType type>
__device__ __forceinline__ void fetch_items(const PromptGemm& op, HopperRing ring) {
  using T = TileSteps<type>;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  PromptWalk walk(op, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  PromptItem item;
  while (walk.next(item)) {
    const unsigned char* tile = lane < kItemTiles ? tile_of(op, item, lane) : nullptr;
    const int tiles = __popc(__ballot_sync(0xFFFFFFFFU, tile != nullptr));
    const int part = lane - kItemTiles;
    const bool brings_rows = part >= 0 && part < op.x.parts;
    const int chunks = op.part[0].chunks;
    const int rows_bytes = (item.columns + 7) / 8 * 8 * kBlockRowBytes;
    const int steps = steps_of<type>(op, item);
    for (int step = 0; step < steps; ++step) {
      int tile_bytes = T::kStageBytes;
      if constexpr (T::kChunksPerStep == 2) tile_bytes = min(2, chunks - 2 * step) * T::kChunkBytes;
      if (T::kStepsPerChunk == 2 && step % 2 == 1) tile_bytes = 0;
      barrier_wait(ring.empty + 8 * ring.stage, ring.parity ^ 1);
      if (lane == 0) barrier_expect(ring.full + 8 * ring.stage, tiles * tile_bytes + op.x.parts * rows_bytes);
      __syncwarp();
      if (tile != nullptr && tile_bytes > 0) {
        const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(ring.weights)) +
                        (ring.stage * kItemTiles + lane) * T::kStageBytes;
        bulk_load(to, tile + std::int64_t{step / T::kStepsPerChunk} * T::kStageBytes, tile_bytes, ring.full + 8 * ring.stage);
      }
      if (brings_rows)
        bulk_load(ring.blocks + ring.stage * ring.block_bytes + part * ring.part_bytes,
                  op.x.row(part, step, item.first), rows_bytes, ring.full + 8 * ring.stage);
      ring.advance();
    }
  }
}

// One item of at most N columns; `activated`: where gated results are put together.
//
// A step is two halves of two products, each half a group of wgmmas: while one is under way, the operands of the next are made.
// Few columns make products that are sooner done than begun, so that they have several sums in turn and more groups under way.
// They are a kernel of their own: ptxas, given all sizes at once, runs out of registers and then serializes every wgmma of the
// kernel (it says so with -v), which costs half the speed.
template <NumberType type, bool kIsGated, bool kIsFew, int N>
__device__ __forceinline__ void work_item(const PromptGemm& op, const PromptItem& item, HopperRing& ring, unsigned char* activated) {
  using T = TileSteps<type>;
  constexpr int kSums = N <= 32 ? 4 : kIsFew ? 2 : 1;
  constexpr int kTurn = kIsFew || T::kStepsPerChunk == 2 ? 2 : 1;  // steps
  constexpr int kBuffers = kIsFew ? 4 : 2;                         // one more than there are groups under way
  constexpr int kStagesHeld = kIsFew ? 2 : 1;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int steps = steps_of<type>(op, item);
  const int chunks = op.part[0].chunks;
  const WarpRows rows = WarpRows::of(kIsGated, warp);
  float d[kSums][N / 2] = {};
  std::uint32_t a[kBuffers][2][4];
  WeightFragments<type> weights;
  const auto give_back = [&](int behind) {
    int stage = ring.stage - behind;
    if (stage < 0) stage += ring.stages;
    if (lane == 0) barrier_arrive(ring.empty + 8 * stage);
  };
  const auto half_step = [&](auto which, auto of_turn, int step) {
    constexpr int kHalf = decltype(which)::value;
    constexpr int kBuffer = (2 * decltype(of_turn)::value + kHalf) % kBuffers;
    constexpr bool kIsSecond = T::kStepsPerChunk == 2 && decltype(of_turn)::value == 1;
    weights.template load<kHalf, kIsSecond>(ring.weights + ring.stage * kItemTiles * T::kStageBytes, rows, 2 * step + 1 < chunks);
    weights.template operands<kHalf, kIsSecond>(a[kBuffer]);
    const std::uint32_t block = ring.blocks + ring.stage * ring.block_bytes + kHalf * 64;
    wgmma_fence();
#pragma unroll
    for (int m = 0; m < 2; ++m) wgmma<N>(d[(2 * kHalf + m) % kSums], a[kBuffer][m], k_major_rows(block + 32 * m));
    if (N <= 128 && op.x.parts == 2)
#pragma unroll
      for (int m = 0; m < 2; ++m)
        wgmma<N>(d[(2 * kHalf + m) % kSums], a[kBuffer][m], k_major_rows(block + ring.part_bytes + 32 * m));
    wgmma_commit();
    wgmma_wait<kBuffers - 1>();  // the oldest group is done: its operands are free, and after a first half so is its stage
  };
  const auto whole_step = [&](auto of_turn, int step) {
    barrier_wait(ring.full + 8 * ring.stage, ring.parity);
    half_step(std::integral_constant<int, 0>{}, of_turn, step);
    if (step >= kStagesHeld) give_back(kStagesHeld);
    half_step(std::integral_constant<int, 1>{}, of_turn, step);
    ring.advance();
  };
  for (int step = 0; step < steps; step += kTurn) {
    whole_step(std::integral_constant<int, 0>{}, step);
    if constexpr (kTurn == 2)
      if (T::kStepsPerChunk == 2 || step + 1 < steps) whole_step(std::integral_constant<int, 1>{}, step + 1);
  }
  wgmma_wait<0>();
  for (int behind = min(steps, kStagesHeld); behind > 0; --behind) give_back(behind);

  // Four groups of columns at a time, where there are four.
  const auto put_all = [&](const auto& store) {
    constexpr int kTogether = N / 8 < 4 ? N / 8 : 4;
#pragma unroll
    for (int at = 0; at < N / 8; at += kTogether) {
      float c[kTogether][4];
#pragma unroll
      for (int i = 0; i < 4 * kTogether; ++i) {
        c[i / 4][i % 4] = d[0][4 * at + i];
#pragma unroll
        for (int other = 1; other < kSums; ++other) c[i / 4][i % 4] += d[other][4 * at + i];
      }
      store.put(8 * at, c, item.columns);
    }
  };
  if constexpr (kIsGated) {
    const auto wait_for_workers = [] { asm volatile("bar.sync 1, %0;" ::"n"(HopperPrompt::kWorkers) : "memory"); };
    if (threadIdx.x == 0) bulk_store_wait_read();
    wait_for_workers();
    put_all(StageActivated<type>(op, item, warp, activated, ring.part_bytes));
    fence_before_bulk();
    wait_for_workers();
    if (threadIdx.x == 0) {
      const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(activated));
      for (int part = 0; part < op.activated.parts; ++part)
        bulk_store(op.activated.row(part, item.row_item, item.first), from + part * ring.part_bytes,
                   item.columns * kBlockRowBytes);
      bulk_store_commit();
    }
  } else {
    put_all(StoreSums<type>(op, item, warp));
  }
}

template <NumberType type, bool kIsGated, bool kIsFew>
__device__ __forceinline__ void work_items(const PromptGemm& op, HopperRing ring, unsigned char* activated) {
  PromptWalk walk(op, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  PromptItem item;
  while (walk.next(item)) {
    if constexpr (kIsFew) {
      if (item.columns <= 16)
        work_item<type, kIsGated, true, 16>(op, item, ring, activated);
      else if (item.columns <= 32)
        work_item<type, kIsGated, true, 32>(op, item, ring, activated);
      else
        work_item<type, kIsGated, true, 64>(op, item, ring, activated);
    } else {
      if (item.columns <= 16)
        work_item<type, kIsGated, false, 16>(op, item, ring, activated);
      else if (item.columns <= 32)
        work_item<type, kIsGated, false, 32>(op, item, ring, activated);
      else if (item.columns <= 64)
        work_item<type, kIsGated, false, 64>(op, item, ring, activated);
      else if (item.columns <= 96)
        work_item<type, kIsGated, false, 96>(op, item, ring, activated);
      else if (item.columns <= 128)
        work_item<type, kIsGated, false, 128>(op, item, ring, activated);
      else if (item.columns <= 160)
        work_item<type, kIsGated, false, 160>(op, item, ring, activated);
      else if (item.columns <= 192)
        work_item<type, kIsGated, false, 192>(op, item, ring, activated);
      else
        work_item<type, kIsGated, false, 256>(op, item, ring, activated);
    }
  }
}

#endif  // MOETUNE_HOPPER

// Empty where it was not compiled for wgmma: has_hopper_prompt() sees that by the missing barriers.
template <NumberType type, bool kIsGated, bool kIsFew>
__global__ void __launch_bounds__(HopperPrompt::kThreads, 1) prompt_hopper(const __grid_constant__ PromptGemm op) {
#if MOETUNE_HOPPER
  extern __shared__ __align__(16) unsigned char raw[];
  __shared__ __align__(8) std::uint64_t barriers[2 * HopperPrompt::kMostStages];
  auto* shared = reinterpret_cast<unsigned char*>((reinterpret_cast<std::uintptr_t>(raw) + 1023) / 1024 * 1024);
  HopperRing ring;
  ring.full = static_cast<std::uint32_t>(__cvta_generic_to_shared(barriers));
  ring.empty = ring.full + 8 * HopperPrompt::kMostStages;
  ring.part_bytes = HopperPrompt::part_bytes(op);
  ring.block_bytes = op.x.parts * ring.part_bytes;
  ring.stages = HopperPrompt::stages<type>(op);
  ring.blocks = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  unsigned char* activated = shared + ring.stages * ring.block_bytes;
  ring.weights = activated + HopperPrompt::activated_bytes(op);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < ring.stages; ++stage) {
      barrier_init(ring.full + 8 * stage, 1);
      barrier_init(ring.empty + 8 * stage, HopperPrompt::kWorkers / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    fence_before_bulk();
  }
  __syncthreads();
  let_next_start();
  wait_for_previous();
  if (threadIdx.x >= HopperPrompt::kWorkers) {
    give_registers<40>();
    if (threadIdx.x / 32 == HopperPrompt::kWorkers / 32) fetch_items<type>(op, ring);
  } else {
    take_registers<232>();
    work_items<type, kIsGated, kIsFew>(op, ring, activated);
    if (kIsGated && threadIdx.x == 0) bulk_store_wait();
  }
#endif
}

// Was the code that runs on this GPU compiled for wgmma?
template <NumberType type>
bool has_hopper_prompt() {
  cudaFuncAttributes attributes{};
  CUDA_TRY(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(prompt_hopper<type, false, true>)));
  return attributes.sharedSizeBytes > 0;
}

template <NumberType type>
void launch_hopper_prompt(Cuda& cuda, const PromptGemm& op, int blocks) {
  const bool is_few = op.most_columns <= HopperPrompt::kFewColumns;
  const auto kernel = op.is_gated ? (is_few ? prompt_hopper<type, true, true> : prompt_hopper<type, true, false>)
                                  : (is_few ? prompt_hopper<type, false, true> : prompt_hopper<type, false, false>);
  launch(kernel,
         {.grid = dim3(static_cast<unsigned>(blocks)),
          .threads = HopperPrompt::kThreads,
          .shared_bytes = HopperPrompt::shared_bytes<type>(op)},
         cuda.state().stream, true, op);
}

}  // namespace moetune::cuda
