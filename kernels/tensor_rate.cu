// Start at measured_tensor_flops(). On Hopper wgmma with both operands in shared memory, elsewhere mma.sync
// out of registers.
#include "kernels/tensor_rate.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/cuda/view.cuh"
#include "kernels/cuda_memory.h"

namespace moetune {
namespace {

constexpr int kRounds = 1 << 13;
constexpr int kRuns = 9;
constexpr int kWarps = 8;
constexpr int kTileRows = 64;  // of a warp group's wgmma
constexpr int kTileColumns = 128;
constexpr int kTileDepth = 64;  // in shared memory; one instruction takes 16 of it
constexpr int kSharedBytes = (2 * kTileRows + kTileColumns) * kTileDepth * 2 + 1024;  // 1024: to align by

// Two bf16 between 0.5 and 1 in size, of either sign: zeros would let the card clock higher than real data
// does.
__device__ __forceinline__ unsigned random_pair(unsigned at) {
  at = (at ^ 61U) ^ (at >> 16);
  at *= 9U;
  at ^= at >> 4;
  at *= 0x27D4EB2DU;
  at ^= at >> 15;
  return (at & 0x807F807FU) | 0x3F003F00U;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// K-major rows of 128 bytes, 128-byte swizzle, 1,024 bytes from one group of eight rows to the next.
__device__ __forceinline__ std::uint64_t descriptor(unsigned shared_address) {
  return (std::uint64_t{shared_address & 0x3FFFFU} >> 4) | (std::uint64_t{1024 >> 4} << 32) |
         (std::uint64_t{1} << 62);
}

__device__ __forceinline__ void multiply(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
        "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]),
        "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
        "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b));
}
#endif

// Floating-point operations of one block in one round.
constexpr double operations_of_hopper() { return 2.0 * 2 * kTileRows * kTileColumns * kTileDepth; }
constexpr int kIndependent = 8;  // products of a warp in flight
constexpr double operations_of_warps() { return 2.0 * kWarps * kIndependent * 16 * 8 * 16; }

__global__ void __launch_bounds__(32 * kWarps) hopper(float* sink, int rounds) {
  cuda::let_next_start();
  cuda::wait_for_previous();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char raw[];
  const unsigned base = (static_cast<unsigned>(__cvta_generic_to_shared(raw)) + 1023U) / 1024U * 1024U;
  for (unsigned at = threadIdx.x * 4; at < kSharedBytes - 1024; at += 32 * kWarps * 4)
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + at),
                 "r"(random_pair(at + blockIdx.x * kSharedBytes)));
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const unsigned group = threadIdx.x / 128;
  constexpr unsigned kRowTile = kTileRows * kTileDepth * 2;
  const std::uint64_t a = descriptor(base + group * kRowTile);
  const std::uint64_t b = descriptor(base + 2 * kRowTile);
  float d[64] = {};
  for (int round = 0; round < rounds; ++round) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < kTileDepth / 16; ++k) multiply(d, a + k * 2, b + k * 2);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  float sum = 0.0F;
  for (const float value : d) sum += value;
  if (sum == 1234.5F) sink[blockIdx.x] = sum;  // never; but the compiler cannot know
#endif
}

__global__ void __launch_bounds__(32 * kWarps) warps(float* sink, int rounds) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const unsigned seed = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned a[4];
  unsigned b[2];
  for (unsigned i = 0; i < 4; ++i) a[i] = random_pair(8 * seed + i);
  for (unsigned i = 0; i < 2; ++i) b[i] = random_pair(8 * seed + 4 + i);
  float d[kIndependent][4] = {};
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kIndependent; ++i)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  float sum = 0.0F;
  for (const auto& tile : d)
    for (const float value : tile) sum += value;
  if (sum == 1234.5F) sink[blockIdx.x] = sum;
}

// Was `hopper` compiled for a GPU that has wgmma, and is this one? Its binary version says which code the
// driver took.
bool has_wgmma(int ordinal) {
  int major = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
  cudaFuncAttributes attributes{};
  CUDA_TRY(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(hopper)));
  return major == 9 && attributes.binaryVersion == 90 &&
         attributes.numRegs > 64;  // without the accumulators it is empty
}

}  // namespace

double measured_tensor_flops(Cuda& cuda) {
  Cuda::State& state = cuda.state();
  const bool wgmma = has_wgmma(state.ordinal);
  const int blocks_each = wgmma ? 1 : 2;
  const int blocks = blocks_each * state.multiprocessors;
  const std::shared_ptr<std::byte> sink =
      cuda_allocate(cuda, static_cast<std::int64_t>(sizeof(float)) * blocks);
  const cuda::LaunchShape shape{.grid = dim3(static_cast<unsigned>(blocks)),
                                .threads = 32 * kWarps,
                                .shared_bytes = wgmma ? kSharedBytes : 0};
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  CUDA_TRY(cudaEventCreate(&start));
  CUDA_TRY(cudaEventCreate(&end));
  std::vector<double> seconds;
  for (int run = 0; run < kRuns; ++run) {
    CUDA_TRY(cudaEventRecord(start, state.stream));
    cuda::launch(wgmma ? hopper : warps, shape, state.stream, false, reinterpret_cast<float*>(sink.get()),
                 kRounds);
    CUDA_TRY(cudaEventRecord(end, state.stream));
    CUDA_TRY(cudaEventSynchronize(end));
    float ms = 0.0F;
    CUDA_TRY(cudaEventElapsedTime(&ms, start, end));
    seconds.push_back(1e-3 * static_cast<double>(ms));
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  std::ranges::sort(seconds);
  const double operations = (wgmma ? operations_of_hopper() : operations_of_warps()) * blocks * kRounds;
  return operations / seconds[seconds.size() / 2];
}

}  // namespace moetune
