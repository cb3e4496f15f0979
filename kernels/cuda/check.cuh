// One check for every call of the CUDA runtime: the message carries place, call and meaning.
#pragma once

#include <cuda_runtime.h>

#include <new>
#include <stdexcept>
#include <string>

namespace moetune::cuda {

// Out of memory is an outcome, not a fault: it arrives as std::bad_alloc, everything else as
// std::runtime_error.
inline void check(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return;
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // an allocation that failed leaves the context usable
    throw std::bad_alloc();
  }
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + call + ": " +
                           cudaGetErrorName(error) + ", " + cudaGetErrorString(error));
}

}  // namespace moetune::cuda

#define CUDA_TRY(call) ::moetune::cuda::check((call), #call, __FILE_NAME__, __LINE__)
