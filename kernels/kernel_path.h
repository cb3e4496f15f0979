// Which kernels a GPU runs where it has the choice. The engine leaves this alone; tests and benches turn it.
#pragma once

#include "kernels/dense_choice.h"

namespace moetune {

struct KernelPath {
  // mma.sync, cp.async and single blocks also where the GPU has wgmma, bulk copies and clusters.
  bool is_portable = false;
  int most_cluster = 16;  // blocks of attention that join by way of their shared memory

  // Steps below this many tokens are decoded: kernels that read every weight once for a few columns. From
  // here on activations are gathered per expert and products are tiled in both directions.
  int least_prompt_tokens = 33;
  // Up to this many tokens experts of 4 bits are decoded where each has few of them
  // (kernels/cuda/ffn_many.cuh).
  int most_many_tokens = 96;
  // Up to this many tokens activations of a prompt count with sixteen bits of mantissa (two products) instead
  // of eight: weights are read once either way, and that is what such a step costs.
  int most_split_tokens = 63;
  // Up to this many tokens a matrix of few rows is left to the kernel that cuts inputs into slices
  // (kernels/cuda/sliced_gemm.cuh): tiled by its rows it would keep few multiprocessors busy.
  int most_sliced_tokens = 64;

  DenseChoice dense = DenseChoice::measured;  // cuBLAS's products; never where activations count in two parts
};

KernelPath kernel_path();
void set_kernel_path(const KernelPath& path);  // for the whole process

}  // namespace moetune
