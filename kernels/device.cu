// Start at Cuda::Cuda(); memory and copies are what buffer.cpp calls.
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <utility>

#include "kernels/cuda/check.cuh"
#include "kernels/cuda/state.cuh"
#include "kernels/cuda_memory.h"

namespace moetune {
namespace {

std::atomic<std::int64_t> waits{0};

void wait_for(cudaStream_t stream) {
  ++waits;
  CUDA_TRY(cudaStreamSynchronize(stream));
}

}  // namespace

Cuda::State::State(int device) : ordinal(device) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    throw std::runtime_error(std::string("no GPU can be used: ") + cudaGetErrorString(error));
  if (ordinal < 0 || ordinal >= count)
    throw std::runtime_error("GPU " + std::to_string(ordinal) + " does not exist: there are " +
                             std::to_string(count));
  CUDA_TRY(cudaSetDevice(ordinal));
  int major = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
  if (major < 8)
    throw std::runtime_error("GPU " + std::to_string(ordinal) + " is older than compute capability 8.0");
  CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal));
  CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_TRY(cudaMalloc(&counters_, kCounters * sizeof(int)));
  CUDA_TRY(cudaMemset(counters_, 0, kCounters * sizeof(int)));
  CUDA_TRY(cudaDeviceSynchronize());  // our stream does not wait for the default one
}

Cuda::State::~State() {
  if (scratch_ != nullptr) cudaFree(scratch_);
  if (counters_ != nullptr) cudaFree(counters_);
  if (stream != nullptr) cudaStreamDestroy(stream);
}

void* Cuda::State::scratch(std::size_t bytes) {
  if (bytes <= scratch_bytes_) return scratch_;
  if (is_capturing) throw std::logic_error("scratch memory cannot grow while a graph is captured");
  wait_for(stream);
  if (scratch_ != nullptr) CUDA_TRY(cudaFree(std::exchange(scratch_, nullptr)));
  scratch_bytes_ = 0;
  CUDA_TRY(cudaMalloc(&scratch_, bytes));
  scratch_bytes_ = bytes;
  ++scratch_generation;
  return scratch_;
}

int* Cuda::State::counters(int count) {
  if (count > kCounters)
    throw std::logic_error(std::to_string(count) + " counters asked for, there are " +
                           std::to_string(kCounters));
  return counters_;
}

Cuda::Cuda(int ordinal) : state_(std::make_shared<State>(ordinal)) {}

void Cuda::synchronize() { wait_for(state_->stream); }

int Cuda::count() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? devices : 0;
}

std::shared_ptr<std::byte> cuda_allocate(Cuda& cuda, std::int64_t bytes) {
  void* data = nullptr;
  CUDA_TRY(cudaSetDevice(cuda.state().ordinal));
  CUDA_TRY(cudaMalloc(&data, static_cast<std::size_t>(bytes > 0 ? bytes : 1)));
  return {static_cast<std::byte*>(data), [](std::byte* block) { cudaFree(block); }};
}

namespace {

// Pinning goes page by page: huge ones make it six times as fast on an H200's host (cuda_cache_bench pin),
// and are read as fast.
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLeastForHugePages = std::size_t{64} << 20;

std::shared_ptr<std::byte> pinned_by_huge_pages(std::size_t bytes) {
  const std::size_t length = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* const mapped =
      mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(mapped) + kHugePage - 1) / kHugePage * kHugePage);
  madvise(begin, length, MADV_HUGEPAGE);  // a kernel without them pins small pages
  if (const cudaError_t error = cudaHostRegister(begin, length, cudaHostRegisterMapped);
      error != cudaSuccess) {
    munmap(mapped, length + kHugePage);
    CUDA_TRY(error);
  }
  return {begin, [mapped, length](std::byte* block) {
            cudaHostUnregister(block);
            munmap(mapped, length + kHugePage);
          }};
}

}  // namespace

std::shared_ptr<std::byte> cuda_allocate_shared(Cuda& cuda, std::int64_t bytes) {
  CUDA_TRY(cudaSetDevice(cuda.state().ordinal));
  // The GPU has to read it at the host's address, which it does wherever it has the host's address space.
  int same_address = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&same_address, cudaDevAttrCanUseHostPointerForRegisteredMem,
                                  cuda.state().ordinal));
  if (same_address != 0 && static_cast<std::size_t>(bytes) >= kLeastForHugePages)
    return pinned_by_huge_pages(static_cast<std::size_t>(bytes));
  void* data = nullptr;
  CUDA_TRY(cudaHostAlloc(&data, static_cast<std::size_t>(bytes > 0 ? bytes : 1), cudaHostAllocMapped));
  return {static_cast<std::byte*>(data), [](std::byte* block) { cudaFreeHost(block); }};
}

void cuda_reserve_scratch(Cuda& cuda, std::int64_t bytes) {
  cuda.state().scratch(static_cast<std::size_t>(bytes));
}
std::int64_t cuda_host_waits() { return waits; }
std::int64_t cuda_free_bytes(Cuda& cuda) {
  std::size_t free = 0;
  std::size_t all = 0;
  CUDA_TRY(cudaSetDevice(cuda.state().ordinal));
  CUDA_TRY(cudaMemGetInfo(&free, &all));
  return static_cast<std::int64_t>(free);
}

// A pageable source is staged before cudaMemcpyAsync returns, so the host may reuse its memory at once.
void cuda_copy_to_device(Cuda& cuda, const void* host, void* on_device, std::int64_t bytes) {
  CUDA_TRY(cudaMemcpyAsync(on_device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                           cuda.state().stream));
}

void cuda_copy_to_host(Cuda& cuda, const void* on_device, void* host, std::int64_t bytes) {
  CUDA_TRY(cudaMemcpyAsync(host, on_device, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost,
                           cuda.state().stream));
  wait_for(cuda.state().stream);
}

}  // namespace moetune
