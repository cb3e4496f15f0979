// Memory of a GPU and copies to and from it: what buffer.cpp calls where CUDA is built in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/device.h"

namespace moetune {

// Throws std::bad_alloc when the card has no room. Freed when the last owner lets go.
std::shared_ptr<std::byte> cuda_allocate(Cuda& cuda, std::int64_t bytes);

// Pinned host memory that kernels write directly.
std::shared_ptr<std::byte> cuda_allocate_shared(Cuda& cuda, std::int64_t bytes);

// device_memory.h
void cuda_reserve_scratch(Cuda& cuda, std::int64_t bytes);
std::int64_t cuda_free_bytes(Cuda& cuda);
std::int64_t cuda_host_waits();

void cuda_copy_to_device(Cuda& cuda, const void* host, void* on_device, std::int64_t bytes);
void cuda_copy_to_host(Cuda& cuda, const void* on_device, void* host, std::int64_t bytes);  // waits

}  // namespace moetune
