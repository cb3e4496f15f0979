// Which kernels take a GPU's steps of many tokens. The engine leaves this alone; tests and benches turn it.
#pragma once

namespace moetune {

struct PromptPath {
  // Steps below this many tokens are decoded: kernels that read every weight once for a few columns. From
  // here on activations are gathered per expert and products are tiled in both directions.
  int least_tokens = 33;
  bool is_portable = false;  // mma.sync and cp.async also where the GPU has wgmma
  // Up to this many tokens activations count with sixteen bits of mantissa (two products) instead of eight:
  // weights are read once either way, and that is what such a step costs.
  int most_split_tokens = 63;
  // Up to this many tokens a matrix of few rows is left to the kernel that cuts inputs into slices
  // (kernels/cuda/sliced_gemm.cuh): tiled by its rows it would keep few multiprocessors busy.
  int most_sliced_tokens = 64;
};

PromptPath prompt_path();
void set_prompt_path(const PromptPath& path);  // for the whole process

}  // namespace moetune
