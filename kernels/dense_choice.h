// Which dense products of many tokens cuBLAS does, and what it takes for that. It wants bf16 in rows, so that
// weights are copied out of their tiles for every product (kernels/cuda/untile.cuh): that pays where the own
// kernels are far behind. Start at cublas_pays(); the figures are in dense_choice.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/number_type.h"

namespace moetune {

// measured: as cublas_pays() says. The engine leaves it at that; tests and benches force one or the other.
enum class DenseChoice : std::uint8_t { measured, own, cublas };

// All matrices that read the same activations count as one.
struct DenseShape {
  NumberType type = NumberType::bf16;
  std::int64_t out = 0;
  std::int64_t in = 0;
};

// What another process has found out about the first GPU. Whoever only plans for it is told, and opens
// neither driver nor cuBLAS for what is asked below; nullopt takes that back. Not while others ask.
struct DenseGpu {
  int compute_major = 0;      // 9 of "9.0"
  std::string why_no_cublas;  // empty: it can be used
};
void tell_dense_gpu(std::optional<DenseGpu> found);
// What this process itself finds: opens device files, and cuBLAS.
int compute_major_here();  // of the first GPU; 0: there is none. Makes no context
const std::string& cublas_problem_here();

// What cuBLAS is measured against: kernels of wgmma, or those for GPUs that have none. As told, or as
// found here. Without a GPU: wgmma.
enum class OwnKernels : std::uint8_t { wgmma, portable };
OwnKernels own_kernels();

// By the table of crossovers in dense_choice.cpp; it does not ask whether there is a cuBLAS. From some number
// of tokens on, or never.
bool cublas_pays(const DenseShape& shape, std::int64_t tokens, OwnKernels own);
// The same for a feed-forward, gate and up (inner, hidden) and down (hidden, inner): the own kernels need no
// memory for what lies between them.
bool cublas_pays_for_ffn(const DenseShape& gate, std::int64_t tokens, OwnKernels own);

// Why cuBLAS cannot be used here, with what would help; empty: it can. As told, or as found
// here.
const std::string& why_no_cublas();
// "cuBLAS 13.0.2", empty where there is none.
std::string cublas_name();
// How many times as long the own kernels of wgmma take for a product that cuBLAS gets, at most:
// reports/h200/cublas.txt, keys of Qwen3.
inline constexpr double kMostLostWithoutCublas = 2.2;

// Scratch memory of such a product: where its parts begin, and the bytes of all.
inline constexpr std::int64_t kCublasWorkspaceBytes = std::int64_t{32}
                                                      << 20;  // what cuBLAS itself takes on Hopper
struct CublasScratch {
  std::int64_t workspace = 0;
  std::int64_t weights = 0;      // bf16, rows of whole chunks
  std::int64_t activations = 0;  // bf16
  std::int64_t biases = 0;       // f32
  std::int64_t bytes = 0;
};
CublasScratch cublas_scratch(const DenseShape& shape, std::int64_t tokens);

// Dense products of many tokens that this process has enqueued, or recorded into graphs, either way.
struct DenseCounts {
  std::int64_t own = 0;
  std::int64_t cublas = 0;
};
DenseCounts dense_counts();
void count_dense(bool is_cublas, int products);

}  // namespace moetune
