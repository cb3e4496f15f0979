#include "kernels/cuda/ffn_few.cuh"

#include "kernels/cuda/few_down.cuh"
#include "kernels/cuda/few_gate_up.cuh"
#include "kernels/cuda/few_plan.cuh"

namespace moetune::cuda {
namespace {

template <NumberType type>
__global__ void __launch_bounds__(32 * GateShape::kMostWarps, GateShape::kBlocksEach)
    gate_up_few(const __grid_constant__ GatePart part) {
  extern __shared__ __align__(128) unsigned char shared[];
  gate_up_tiles<type>(part, part.work.entries.kind != FfnEntries::Kind::everyone,
                      static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x), shared);
}

template <NumberType type>
__global__ void __launch_bounds__(32 * DownShape::kMostWarps)
    down_few(const __grid_constant__ DownPart part, int tiles_each, Rows weights, Rows y) {
  extern __shared__ __align__(128) unsigned char shared[];
  auto* sums = reinterpret_cast<float*>(shared + part.shape.bytes());
  const FfnTiles& tiles = part.work.down;
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int first = static_cast<int>(blockIdx.x) * tiles_each;
  const int end = min(first + tiles_each, (tiles.out + 15) / 16);
  DownResults results(tiles.out, part.shape.tokens, y, first, end);
  down_tiles<type>(
      part, weights,
      {.warp = static_cast<int>(threadIdx.x / 32),
       .warps = warps,
       .first = first,
       .end = end,
       .sums_of_tile = warps * part.shape.tokens * 16},
      shared, sums, [&] { results.ask(); }, [] { __syncthreads(); });
  __syncthreads();
  results.add(sums, warps);
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
  const FewShape shape = few_shape_of(type, work, false);
  const int tiles = (work.gate.out + 15) / 16;
  const int choices = work.entries.count;
  const GateShape gate =
      few_gate_shape(work.gate.chunks, tiles, choices,
                     {cuda.state().multiprocessors,
                      most_tiles_beside(shape.bytes(), GateShape::kMostWarps * sum_bytes_of(shape))});
  const int blocks = (tiles + gate.tiles_each - 1) / gate.tiles_each;
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    launch(gate_up_few<kType>,
           {.grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(choices)),
            .threads = 32 * gate.warps,
            .shared_bytes = shape.bytes() + gate.tiles_each * gate.warps * sum_bytes_of(shape)},
           cuda.state().stream, true,
           GatePart{.work = work,
                    .shape = shape,
                    .steps = gate.steps,
                    .tiles_each = gate.tiles_each,
                    .blocks = blocks,
                    .brought_ahead = 0,
                    .brought_down = brought_down_bytes(work.down, choices)});
  });
}

void run_down_few(Cuda& cuda, NumberType type, const FfnWork& work, Rows weights, Rows y) {
  const FewShape shape = few_shape_of(type, work, true);
  const DownShape down =
      few_down_shape(work.down.chunks, (work.down.out + 15) / 16, work.entries.count,
                     {cuda.state().multiprocessors,
                      most_tiles_beside(shape.bytes(), DownShape::kMostWarps * shape.tokens * 64)});
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    launch(down_few<kType>,
           {.grid = dim3(blocks_for(work.down.out, 16 * down.tiles_each)),
            .threads = 32 * down.warps,
            .shared_bytes = shape.bytes() + down.tiles_each * down.warps * shape.tokens * 64},
           cuda.state().stream, true, DownPart{work, shape, down.splits}, down.tiles_each, weights, y);
  });
}

}  // namespace moetune::cuda
