// The draw itself is sample.cpp's: Gumbel noise from the same Philox numbers, largest score wins, ties to the
// lower id.
#include <algorithm>

#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/view.cuh"
#include "kernels/sample.h"

namespace moetune {
namespace {

constexpr int kThreads = 512;
constexpr int kPart = kThreads * 4;  // ids that a block looks at in one go

struct Best {
  float score;
  int id;
  __device__ void take(float other_score, int other_id) {
    if (other_score > score || (other_score == score && other_id < id)) score = other_score, id = other_id;
  }
};

// Larger for what is drawn rather: score first, then the lower id. Zero stands for nothing.
__device__ __forceinline__ unsigned long long ranked(const Best& best) {
  const unsigned bits = __float_as_uint(best.score + 0.0F);  // one zero only
  const unsigned ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return (static_cast<unsigned long long>(ordered) << 32) | ~static_cast<unsigned>(best.id);
}

// What the blocks of a row share; zero before and after.
struct Shared {
  unsigned long long best;
  int arrived;
  int unused;
};

// grid: (parts of the vocabulary, rows). The order in which parts are done cannot matter: the largest is the
// largest.
__global__ void __launch_bounds__(kThreads)
    sample(cuda::Rows logits, int vocabulary, const std::int32_t* keys, std::int32_t* ids, float temperature,
           std::uint64_t seed, Shared* shared) {
  __shared__ Best found[kThreads / 32];
  cuda::let_next_start();
  cuda::wait_for_previous();
  const unsigned row = blockIdx.y;
  const float* from = logits.row(row);
  Best best{-INFINITY, 0x7FFFFFFF};
  const int stride = static_cast<int>(gridDim.x) * kPart;
  for (int block = static_cast<int>(blockIdx.x) * kPart + static_cast<int>(threadIdx.x) * 4;
       block < vocabulary; block += stride) {
    cuda::Random4 random{};
    if (temperature > 0.0F)
      random = cuda::philox(static_cast<std::uint32_t>(block / 4), static_cast<std::uint32_t>(keys[row]), 0,
                            0, seed);
    for (int i = 0; i < 4 && block + i < vocabulary; ++i) {
      float score = from[block + i];
      if (temperature > 0.0F) {
        const double u = (static_cast<double>(random.value[i] >> 8) + 0.5) * 0x1p-24;
        score = score / temperature + static_cast<float>(-log(-log(u)));
      }
      best.take(score, block + i);
    }
  }
  for (int offset = 16; offset > 0; offset /= 2)
    best.take(__shfl_xor_sync(0xFFFFFFFFU, best.score, offset),
              __shfl_xor_sync(0xFFFFFFFFU, best.id, offset));
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const Best& other : found) best.take(other.score, other.id);
  Shared& of_row = shared[row];
  atomicMax(&of_row.best, ranked(best));
  if (cuda::arrive(&of_row.arrived) != static_cast<int>(gridDim.x) - 1) return;
  ids[row] = static_cast<std::int32_t>(~static_cast<unsigned>(atomicExch(&of_row.best, 0ULL)));
  of_row.arrived = 0;
}

}  // namespace

void run(Cuda& cuda, const Sample& op) {
  const std::int64_t rows = op.logits.dim(0);
  const auto vocabulary = static_cast<int>(op.logits.dim(1));
  // A draw takes two logarithms in f64: a row is spread over the whole card, many rows share it.
  constexpr std::int64_t kBlocks = 264;
  constexpr std::int64_t kMostRows = 256;
  for (std::int64_t first = 0; first < rows; first += kMostRows) {
    const std::int64_t count = std::min(kMostRows, rows - first);
    const std::int64_t parts = std::clamp<std::int64_t>(kBlocks / count, 1, (vocabulary + kPart - 1) / kPart);
    auto* shared = reinterpret_cast<Shared*>(
        cuda.state().counters(static_cast<int>(count * (sizeof(Shared) / sizeof(int)))));
    const Tensor logits = op.logits.rows(first, count);
    cuda::launch(
        sample,
        {.grid = dim3(static_cast<unsigned>(parts), static_cast<unsigned>(count)), .threads = kThreads},
        cuda.state().stream, true, cuda::rows_of(logits), vocabulary,
        op.temperature > 0.0F ? op.keys.i32() + first : nullptr, op.ids.i32() + first, op.temperature,
        op.seed, shared);
  }
}

}  // namespace moetune
