// The products of a prompt with mma.sync and cp.async, for GPUs without wgmma. A block of eight warps takes an item of up to 128
// columns: four warps share its rows (two tiles each), two its columns.
#include <algorithm>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/prompt_results.cuh"
#include "kernels/cuda/tile_stream.cuh"

namespace moetune::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostColumns = 128;
constexpr int kBlockBytes = kMostColumns * kBlockRowBytes;
constexpr int kGroups = kMostColumns / 2 / 8;  // of eight columns, of a warp

__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at));
}

// Fetches one step of an item into a stage: a warp a tile of weights, eight threads a row of activations.
template <NumberType type>
__device__ __forceinline__ void fetch(const PromptGemm& op, const PromptItem& item, const unsigned char* tile, int step,
                                      std::uint32_t stage) {
  using T = TileSteps<type>;
  const auto thread = static_cast<int>(threadIdx.x);
  int pieces = T::kStageBytes / 16;
  if constexpr (T::kChunksPerStep == 2) pieces = min(2, op.part[0].chunks - 2 * step) * (T::kChunkBytes / 16);
  if (tile != nullptr) {
    const unsigned char* from = tile + std::int64_t{step / T::kStepsPerChunk} * T::kStageBytes;
    const std::uint32_t to = stage + thread / 32 * T::kStageBytes;
    for (int i = thread % 32; i < pieces; i += 32) copy_async16(to + i * 16, from + i * 16);
  }
  const std::uint32_t blocks = stage + kItemTiles * T::kStageBytes + thread * 16;
  for (int part = 0; part < op.x.parts; ++part) {
    const unsigned char* from = op.x.row(part, step, item.first) + thread * 16;
    for (int at = thread / 8; at < item.columns; at += kThreads / 8) {
      const int offset = (at - thread / 8) * kBlockRowBytes;
      copy_async16(blocks + part * kBlockBytes + offset, from + offset);
    }
  }
}

template <NumberType type, bool kIsGated>
__global__ void __launch_bounds__(kThreads, 1) prompt_portable(const __grid_constant__ PromptGemm op, int stages) {
  extern __shared__ __align__(128) unsigned char shared[];
  using T = TileSteps<type>;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int warp_row = static_cast<int>(threadIdx.x) / 32 % 4 * 2;
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int stage_bytes = kItemTiles * T::kStageBytes + op.x.parts * kBlockBytes;
  let_next_start();
  wait_for_previous();
  PromptWalk walk(op, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
  PromptItem item;
  while (walk.next(item)) {
    const bool is_padding = kIsGated && item.row_item * kBlockColumns >= op.part[0].out;  // only zeros that down will read
    const int steps = is_padding ? 0 : op.x.blocks;
    const unsigned char* tile = tile_of(op, item, static_cast<int>(threadIdx.x / 32));
    // Both halves of the warps have as many columns, but for one group.
    const int columns_each = (item.columns + 15) / 16 * 8;
    const int first_column = static_cast<int>(threadIdx.x) / 128 * columns_each;
    const int end_column = min(item.columns, first_column + columns_each);
    float sums[2][kGroups][4] = {};
    WeightFragments<type> weights[2];
    for (int step = 0; step < stages - 1; ++step) {
      if (step < steps) fetch<type>(op, item, tile, step, base + step * stage_bytes);
      commit_copies();
    }
    for (int step = 0; step < steps; ++step) {
      if (stages == 3)
        wait_for_copies<1>();
      else
        wait_for_copies<0>();
      __syncthreads();  // everybody's copies are there, and everybody is done with the stage that is filled next
      const int ahead = step + stages - 1;
      if (ahead < steps) fetch<type>(op, item, tile, ahead, base + ahead % stages * stage_bytes);
      commit_copies();
      const unsigned char* stage = shared + step % stages * stage_bytes;
      const auto half_step = [&](auto which, auto second) {
        constexpr int kHalf = decltype(which)::value;
        constexpr bool kIsSecond = decltype(second)::value;
        std::uint32_t a[2][2][4];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          weights[r].template load<kHalf, kIsSecond>(stage, WarpRows::of(kIsGated, warp_row + r), 2 * step + 1 < op.part[0].chunks);
          weights[r].template operands<kHalf, kIsSecond>(a[r]);
        }
        for (int part = 0; part < op.x.parts; ++part) {
          const std::uint32_t block =
              base + step % stages * stage_bytes + kItemTiles * T::kStageBytes + part * kBlockBytes;
#pragma unroll
          for (int j = 0; j < kGroups; ++j) {
            if (first_column + 8 * j >= end_column) continue;  // not break: sums must have constant indices
            const int column = first_column + 8 * j + lane % 8;
            std::uint32_t b[4];  // both products of the half: pieces 4 half + 0 .. 3
            load_matrices(b, block + column * kBlockRowBytes + ((4 * kHalf + lane / 8) ^ column % 8) * 16);
#pragma unroll
            for (int m = 0; m < 2; ++m)
#pragma unroll
              for (int r = 0; r < 2; ++r)
                mma(sums[r][j], a[r][m][0], a[r][m][1], a[r][m][2], a[r][m][3], b[2 * m], b[2 * m + 1]);
          }
        }
      };
      const auto whole_step = [&](auto second) {
        half_step(std::integral_constant<int, 0>{}, second);
        half_step(std::integral_constant<int, 1>{}, second);
      };
      if (T::kStepsPerChunk == 2 && step % 2 == 1)
        whole_step(std::true_type{});
      else
        whole_step(std::false_type{});
    }
    wait_for_copies<0>();
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kIsGated) {
        StageActivated<type>(op, item, warp_row + r, shared, kBlockBytes).put(first_column, sums[r], end_column);
      } else {
        StoreSums<type>(op, item, warp_row + r).put(first_column, sums[r], end_column);
      }
    }
    if constexpr (kIsGated) {
      __syncthreads();
      const int pieces = item.columns * kBlockRowBytes / 16;
      for (int i = static_cast<int>(threadIdx.x); i < op.activated.parts * pieces; i += kThreads)
        reinterpret_cast<uint4*>(op.activated.row(i / pieces, item.row_item, item.first))[i % pieces] =
            reinterpret_cast<const uint4*>(shared + i / pieces * kBlockBytes)[i % pieces];
      __syncthreads();
    }
  }
}

template <NumberType type, bool kIsGated>
void launch_portable(Cuda& cuda, const PromptGemm& op) {
  const int stages = op.x.parts == 2 ? 2 : 3;  // 96 KiB of shared memory, which every GPU has
  const int columns = op.entries + (op.host_plan != nullptr ? op.x.capacity : op.tokens) / op.most_columns;
  launch(prompt_portable<type, kIsGated>,
         {.grid = dim3(static_cast<unsigned>(std::min(cuda.state().multiprocessors, op.row_items * columns))),
          .threads = kThreads,
          .shared_bytes = stages * (kItemTiles * TileSteps<type>::kStageBytes + op.x.parts * kBlockBytes)},
         cuda.state().stream, true, op, stages);
}

}  // namespace

void launch_portable_prompt(Cuda& cuda, NumberType type, const PromptGemm& op) {
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    if (op.is_gated)
      launch_portable<kType, true>(cuda, op);
    else
      launch_portable<kType, false>(cuda, op);
  });
}

}  // namespace moetune::cuda
