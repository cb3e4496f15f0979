// The link is slow and far: what counts is enough reads under way, and few multiprocessors have them.
#include "kernels/fetch_experts.h"

#include <stdexcept>

#include "kernels/cuda/device_clock.cuh"
#include "kernels/cuda/view.cuh"

namespace moetune {
namespace {

constexpr int kThreads = 1024;
// Two multiprocessors saturate a PCIe 5 x16 link (an H200, blocks of 1,024 threads: 1 block 40 GB/s, 2, 8 and
// 132 blocks 51 GB/s); more of them for links that are faster.
constexpr int kBlocks = 8;
// Reads of 16 bytes by a thread that wait at the same time. Two are quicker than four, and four than eight:
// 346, 366 and 378 us for an expert of 17.3 MB (reports/h200/cache-fetch.txt).
constexpr int kInFlight = 2;
constexpr int kPiece = kThreads * kInFlight;

struct Work {
  const uint4* store;
  uint4* slots;
  std::int64_t words;  // of 16 bytes, in a block of the store
  const std::int32_t* count;
  const std::int32_t* sources;
  const std::int32_t* slot_numbers;
  SlotCounters* counters;
  int* arrived;  // zero before and after
};

// The next kernel's blocks do not start early: they would find these multiprocessors taken, share others in
// pairs, and the experts of a token would take a second turn. Without that a token of DeepSeek-V2-Lite takes
// 0.2 ms less (reports/h200/cache-fetch.txt).
__global__ void __launch_bounds__(kThreads, 1) fetch(const __grid_constant__ Work work) {
  cuda::wait_for_previous();
  const int count = *work.count;
  if (count == 0) return;
  if (work.counters != nullptr && blockIdx.x == 0 && threadIdx.x == 0)
    work.counters->fetch_began_ns = cuda::now_ns();
  const std::int64_t pieces_each = (work.words + kPiece - 1) / kPiece;
  const std::int64_t pieces = count * pieces_each;
  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += kBlocks) {
    const std::int64_t which = piece / pieces_each;
    const std::int64_t first = (piece - which * pieces_each) * kPiece + threadIdx.x;
    const uint4* from = work.store + work.sources[which] * work.words;
    uint4* to = work.slots + work.slot_numbers[which] * work.words;
    uint4 words[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      if (first + i * kThreads < work.words) words[i] = __ldcs(from + first + i * kThreads);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      if (first + i * kThreads < work.words) to[first + i * kThreads] = words[i];
  }
  if (work.counters == nullptr) return;  // beside others, that count arrivals at the same place
  __syncthreads();
  if (threadIdx.x != 0 || cuda::arrive(work.arrived) != kBlocks - 1) return;
  *work.arrived = 0;
  work.counters->fetch_ns +=
      cuda::now_ns() - *const_cast<volatile std::int64_t*>(&work.counters->fetch_began_ns);
}

}  // namespace

void run(Cuda& cuda, const FetchExperts& op) {
  if (op.block_bytes % 16 != 0)
    throw std::invalid_argument("FetchExperts: blocks must be whole words of 16 bytes");
  const Work work{.store = reinterpret_cast<const uint4*>(op.store),
                  .slots = reinterpret_cast<uint4*>(op.slots),
                  .words = op.block_bytes / 16,
                  .count = op.list.count.i32(),
                  .sources = op.list.sources.i32(),
                  .slot_numbers = op.list.slots.i32(),
                  .counters = op.counters,
                  .arrived = cuda.state().counters(1)};
  // What comes first on a side branch waits for ops of another stream, and must not look back at its own
  // only.
  const bool is_overlapped = op.counters != nullptr;
  cuda::launch(fetch, {.grid = dim3(kBlocks), .threads = kThreads}, cuda.state().stream, is_overlapped, work);
}

}  // namespace moetune
