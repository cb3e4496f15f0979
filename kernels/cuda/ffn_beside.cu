#include "kernels/cuda/ffn_beside.cuh"

#include <algorithm>

#include "kernels/cuda/few_down.cuh"
#include "kernels/cuda/few_gate_up.cuh"
#include "kernels/cuda/few_plan.cuh"
#include "kernels/cuda/ffn_few.cuh"

namespace moetune::cuda {
namespace {

// Of a block's gate, and of its up, in the L2 cache while the router decides: all of them in V2-Lite.
constexpr int kBroughtAhead = 256 * 1024;

// The first blocks take the shared experts: they are on the multiprocessors first, and have work before it is
// known who was chosen.
template <NumberType type, NumberType shared_type>
__global__ void __launch_bounds__(32 * GateShape::kMostWarps, GateShape::kBlocksEach)
    gate_up_beside(const __grid_constant__ GatePart routed, const __grid_constant__ GatePart shared) {
  extern __shared__ __align__(128) unsigned char room[];
  const auto block = static_cast<int>(blockIdx.x);
  if (block < shared.blocks) return gate_up_tiles<shared_type>(shared, false, 0, block, room);
  const int choice = (block - shared.blocks) / routed.blocks;
  gate_up_tiles<type>(routed, true, choice, block - shared.blocks - choice * routed.blocks, room);
}

// The first routed.splits * choices warps take the routed experts.
template <NumberType type, NumberType shared_type>
__global__ void __launch_bounds__(32 * DownShape::kMostWarps)
    down_beside(const __grid_constant__ DownPart routed, const __grid_constant__ DownPart shared,
                int tiles_each, Rows weights, Rows y) {
  extern __shared__ __align__(128) unsigned char room[];
  unsigned char* shared_room = room + routed.shape.bytes();
  auto* sums = reinterpret_cast<float*>(shared_room + shared.shape.bytes());
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int routed_warps = routed.splits * routed.work.entries.count;
  const int first = static_cast<int>(blockIdx.x) * tiles_each;
  const int end = min(first + tiles_each, (routed.work.down.out + 15) / 16);
  DownResults results(routed.work.down.out, 1, y, first, end);
  const auto ask = [&] { results.ask(); };
  if (warp < routed_warps)
    down_tiles<type>(
        routed, weights,
        {.warp = warp, .warps = routed_warps, .first = first, .end = end, .sums_of_tile = warps * 16}, room,
        sums, ask, [&] { sync_warps(1, routed_warps); });
  else
    down_tiles<shared_type>(shared, {},
                            {.warp = warp - routed_warps,
                             .warps = warps - routed_warps,
                             .first = first,
                             .end = end,
                             .sums_of_tile = warps * 16},
                            shared_room, sums + routed_warps * 16, ask,
                            [&] { sync_warps(2, warps - routed_warps); });
  __syncthreads();
  results.add(sums, warps);
}

// Calls body(type, shared type) as constants for the pairs that are compiled; false: it is not one of them.
template <class Body>
bool with_pair(NumberType type, NumberType shared_type, const Body& body) {
  const auto call = [&](auto routed, auto shared) {
    if (type != decltype(routed)::value || shared_type != decltype(shared)::value) return false;
    body(routed, shared);
    return true;
  };
  using T = NumberType;
  constexpr std::integral_constant<T, T::bf16> bf16;
  constexpr std::integral_constant<T, T::fp8> fp8;
  constexpr std::integral_constant<T, T::int8> int8;
  constexpr std::integral_constant<T, T::int4> int4;
  constexpr std::integral_constant<T, T::int4_g32> int4_g32;
  constexpr std::integral_constant<T, T::mxfp4> mxfp4;
  return call(bf16, bf16) || call(fp8, fp8) || call(int8, int8) || call(int4, int4) || call(fp8, bf16) ||
         call(int8, bf16) || call(int4, bf16) || call(int4_g32, bf16) || call(mxfp4, bf16);
}

int tile_rows(const FfnTiles& tiles) { return (tiles.out + 15) / 16; }
FewSizes sizes_of(const FfnTiles& tiles) {
  return {.chunks = tiles.chunks,
          .tiles = tile_rows(tiles),
          .chunk_bytes = static_cast<int>(tiles.tile_bytes / tiles.chunks)};
}

}  // namespace

bool takes_shared_beside(NumberType type, const FfnWork& work, NumberType shared_type,
                         const FfnWork& shared) {
  if (work.entries.kind != FfnEntries::Kind::one_token || shared.entries.tokens != 1) return false;
  if (work.entries.count >= DownShape::kMostWarps || !is_few(type, work) || !is_few(shared_type, shared))
    return false;
  return few_shape_of(type, work, true).bytes() + few_shape_of(shared_type, shared, true).bytes() <=
             kMostSharedBytes &&
         with_pair(type, shared_type, [](auto, auto) {});
}

void run_gate_up_beside(Cuda& cuda, NumberType type, const FfnWork& work, NumberType shared_type,
                        const FfnWork& shared) {
  const FewShape shape = few_shape_of(type, work, false);
  const FewShape shared_shape = few_shape_of(shared_type, shared, false);
  const int staged = std::max(shape.bytes(), shared_shape.bytes());
  const int choices = work.entries.count;
  const GatePairShape gate = few_gate_pair_shape(
      sizes_of(work.gate), choices, sizes_of(shared.gate),
      {cuda.state().multiprocessors, most_tiles_beside(staged, GateShape::kMostWarps * sum_bytes_of(shape))});
  const auto part = [&](const FfnWork& of, const FewShape& its_shape, int steps, int tiles_each) {
    return GatePart{.work = of,
                    .shape = its_shape,
                    .steps = steps,
                    .tiles_each = tiles_each,
                    .blocks = (tile_rows(of.gate) + tiles_each - 1) / tiles_each,
                    .brought_ahead = kBroughtAhead,
                    .brought_down = brought_down_bytes(of.down, of.entries.count)};
  };
  const GatePart routed = part(work, shape, gate.steps, gate.tiles_each);
  const GatePart beside = part(shared, shared_shape, gate.beside_steps, gate.beside_tiles_each);
  with_pair(type, shared_type, [&](auto constant, auto shared_constant) {
    launch(gate_up_beside<decltype(constant)::value, decltype(shared_constant)::value>,
           {.grid = dim3(static_cast<unsigned>(beside.blocks + routed.blocks * choices)),
            .threads = 32 * gate.warps,
            .shared_bytes = staged + std::max(gate.tiles_each, gate.beside_tiles_each) * gate.warps *
                                         sum_bytes_of(shape)},
           cuda.state().stream, true, routed, beside);
  });
}

void run_down_beside(Cuda& cuda, NumberType type, const FfnWork& work, NumberType shared_type,
                     const FfnWork& shared, Rows weights, Rows y) {
  const FewShape shape = few_shape_of(type, work, true);
  const FewShape shared_shape = few_shape_of(shared_type, shared, true);
  const int staged = shape.bytes() + shared_shape.bytes();
  constexpr int kSumBytes = 16 * static_cast<int>(sizeof(float));  // of a tile and warp
  const DownPairShape down = few_down_pair_shape(
      sizes_of(work.down), work.entries.count, sizes_of(shared.down),
      {cuda.state().multiprocessors, most_tiles_beside(staged, DownShape::kMostWarps * kSumBytes)});
  const int warps = down.splits * work.entries.count + down.beside_splits;
  with_pair(type, shared_type, [&](auto constant, auto shared_constant) {
    launch(down_beside<decltype(constant)::value, decltype(shared_constant)::value>,
           {.grid = dim3(blocks_for(work.down.out, 16 * down.tiles_each)),
            .threads = 32 * warps,
            .shared_bytes = staged + down.tiles_each * warps * kSumBytes},
           cuda.state().stream, true, DownPart{work, shape, down.splits},
           DownPart{shared, shared_shape, down.beside_splits}, down.tiles_each, weights, y);
  });
}

}  // namespace moetune::cuda
