// Launching kernels with programmatic dependent launch: the next kernel's blocks are in place, and fetch what
// no other kernel writes (weights), while this one finishes. Start at launch(); kernels call
// wait_for_previous() before they touch anything another kernel wrote.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/check.cuh"

namespace moetune::cuda {

// All memory operations of the kernels before this one are visible from here on. Every kernel must call it in
// every thread that reads or writes device memory, also where it needs nothing: a kernel that skips it breaks
// the chain for the one after it.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel's blocks take their places as soon as all blocks of this one have come here or ended.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct LaunchShape {
  dim3 grid;
  int threads = 0;
  int shared_bytes = 0;  // dynamic
};

// Were kernels compiled for a GPU that has griddepcontrol? Code for an older one, translated for this GPU by
// the driver, waits for nothing by itself and must not be launched as if it did.
template <class Kernel>
bool waits_for_previous(Kernel* kernel) {
  constexpr int kFirst = 90;
  cudaFuncAttributes attributes{};
  CUDA_TRY(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)));
  return attributes.ptxVersion >= kFirst;
}

// is_overlapped: may start before the kernel in front of it has ended (code for sm_90 and later; elsewhere it
// has no effect).
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream, bool is_overlapped,
            Arguments&&... arguments) {
  constexpr int kSharedWithoutAsking = 40 * 1024;  // 48 KiB less what kernels declare themselves
  if (shape.shared_bytes > kSharedWithoutAsking)
    CUDA_TRY(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes));
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  static const bool can_overlap = waits_for_previous(kernel);  // all kernels are compiled for the same GPUs
  config.numAttrs = is_overlapped && can_overlap ? 1 : 0;
  CUDA_TRY(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

}  // namespace moetune::cuda
