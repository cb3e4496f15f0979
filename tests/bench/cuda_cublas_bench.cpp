// Dense products of whole models on a GPU, three ways: this engine's own kernels; cuBLAS as the engine uses
// it, with weights copied out of their tiles and activations rounded; cuBLAS alone on rows of bf16 that are
// there already, which is the limit. Each in one CUDA graph over matrices of its own, so that no weight is in
// the L2 cache when it is read.
//
//   cuda_cublas_bench [model ...] [tokens=64,72,128,256,512,1024,2048,4096] [types=bf16] [path=best|portable]
//
// model: qwen3, mixtral, v3, v2lite, gpt-oss, llama3 or all. Prints microseconds, which of the first two the
// engine takes and how far that is from the third; below each product from how many tokens on cuBLAS was
// faster: kernels/dense_choice.cpp holds what follows from that. A feed-forward (ffn) is three products; by
// cuBLAS what lies between them goes through memory as f32.
#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/feed_forward.h"
#include "kernels/gemm.h"
#include "kernels/kernel_path.h"
#include "kernels/run.h"
#include "tests/bench/cuda_bench.h"

#if MOETUNE_HAS_CUDA

#include "kernels/cuda/cublas_product.cuh"

namespace moetune {
namespace {

constexpr std::int64_t kL2Bytes = std::int64_t{60} << 20;
constexpr std::int64_t kMostResultBytes = std::int64_t{3} << 30;  // larger results are left out
constexpr int kRuns = 7;

struct Product {
  const char* model;
  const char* name;
  std::int64_t out, in;
  bool is_ffn = false;  // (inner, hidden)
};
constexpr Product kProducts[] = {{"qwen3", "qkv", 5120, 2048},
                                 {"qwen3", "k", 512, 2048},
                                 {"qwen3", "o", 2048, 4096},
                                 {"qwen3", "head", 151936, 2048},
                                 {"mixtral", "qkv", 6144, 4096},
                                 {"mixtral", "o", 4096, 4096},
                                 {"mixtral", "head", 32000, 4096},
                                 {"v3", "q_a+kv_a", 2112, 7168},
                                 {"v3", "q_b", 24576, 1536},
                                 {"v3", "o", 7168, 16384},
                                 {"v3", "dense gate", 18432, 7168},
                                 {"v3", "dense down", 7168, 18432},
                                 {"v3", "dense ffn", 18432, 7168, true},
                                 {"v3", "shared ffn", 2048, 7168, true},
                                 {"v3", "head", 129280, 7168},
                                 {"v2lite", "q+kv_a", 3648, 2048},
                                 {"v2lite", "o", 2048, 2048},
                                 {"v2lite", "shared ffn", 2816, 2048, true},
                                 {"gpt-oss", "qkv", 5120, 2880},
                                 {"gpt-oss", "o", 2880, 4096},
                                 {"llama3", "ffn", 14336, 4096, true}};

struct Layer {
  WeightMatrix first;  // gate where it is a feed-forward
  WeightMatrix up;
  WeightMatrix down;
};

class Bench {
 public:
  // Nothing where the result would be too large.
  void measure(const Product& product, NumberType type, std::int64_t tokens, const KernelPath& path) {
    if (tokens * product.out * 4 > kMostResultBytes) return;
    memory_.start_over();
    const std::int64_t bytes = product.out * product.in * (product.is_ffn ? 6 : 2);
    std::vector<Layer> layers;
    for (std::int64_t i = 0; i < std::clamp<std::int64_t>(4 * kL2Bytes / bytes, 2, 64); ++i) {
      layers.push_back({memory_.matrix(type, product.out, product.in), {}, {}});
      if (!product.is_ffn) continue;
      layers.back().up = memory_.matrix(type, product.out, product.in);
      layers.back().down = memory_.matrix(type, product.in, product.out);
    }
    const Tensor x = memory_.tensor(NumberType::f32, {tokens, product.in});
    const std::vector<float> numbers(static_cast<std::size_t>(x.elements()), 0.25F);
    memory_.put(x, numbers.data());
    const Tensor both =
        memory_.tensor(NumberType::f32, {tokens, product.is_ffn ? 2 * product.out : product.out});
    const Tensor inner = both.columns(0, product.out);
    const Tensor upped = product.is_ffn ? both.columns(product.out, product.out) : inner;
    const Tensor y = product.is_ffn ? memory_.tensor(NumberType::f32, {tokens, product.in}) : inner;
    const auto time = [&](DenseChoice choice, const auto& body) {
      KernelPath chosen = path;
      chosen.dense = choice;
      set_kernel_path(chosen);
      const double us = bench::microseconds(device_, layers, kRuns, body);
      set_kernel_path(path);
      return us;
    };
    const auto one = [&](const Layer& layer) { run(device_, Gemm{.x = x, .w = layer.first, .y = y}); };
    const auto fused = [&](const Layer& layer) {
      run(device_, FeedForward{.x = x,
                               .gate = layer.first,
                               .up = layer.up,
                               .down = layer.down,
                               .gated = inner,
                               .upped = upped,
                               .y = y});
    };
    const double own = product.is_ffn ? time(DenseChoice::own, fused) : time(DenseChoice::own, one);
    const double copied = product.is_ffn ? time(DenseChoice::cublas, fused) : time(DenseChoice::cublas, one);
    const DenseCounts before = dense_counts();
    set_kernel_path(path);
    product.is_ffn ? fused(layers[0]) : one(layers[0]);
    const bool takes_cublas = dense_counts().cublas > before.cublas;
    // The same memory as rows of bf16: what the numbers are does not matter.
    const Tensor x16 = memory_.tensor(NumberType::bf16, {tokens, std::max(product.in, product.out)});
    const Tensor w16 = memory_.tensor(NumberType::bf16, {product.out, product.in});
    const auto alone = [&](const WeightMatrix& w, const Tensor& to) {
      const bool has_rows = type == NumberType::bf16;  // else a matrix that other layers use too
      cuda::cublas_product(std::get<Cuda>(device_),
                           {.w = static_cast<const __nv_bfloat16*>(has_rows ? w.data : w16.data()),
                            .x = static_cast<const __nv_bfloat16*>(x16.data()),
                            .y = to.f32(),
                            .y_stride = to.stride(0),
                            .out = static_cast<int>(w.layout.out),
                            .tokens = static_cast<int>(tokens),
                            .width = static_cast<int>(w.layout.in),
                            .bias = nullptr,
                            .accumulates = false,
                            .workspace = workspace_.data()});
    };
    const double limit = bench::microseconds(device_, layers, kRuns, [&](const Layer& layer) {
      alone(layer.first, inner);
      if (!product.is_ffn) return;
      alone(layer.up, upped);
      alone(layer.down, y);
    });
    const double flops =
        (product.is_ffn ? 6.0 : 2.0) * static_cast<double>(tokens * product.out * product.in);
    std::printf(
        "%-8s %-10s (%6lld, %5lld) %-5s T=%-5lld own %9.2f us  cuBLAS with copies %9.2f us  alone %9.2f us "
        "(%5.1f TFLOP/s)  here %-6s here/alone %5.2f\n",
        product.model, product.name, static_cast<long long>(product.out), static_cast<long long>(product.in),
        std::string(name_of(type)).c_str(), static_cast<long long>(tokens), own, copied, limit,
        flops / (limit * 1e6), takes_cublas ? "cuBLAS" : "own", (takes_cublas ? copied : own) / limit);
    std::fflush(stdout);
    if (copied >= own) crossover_ = 0;
    if (copied < own && crossover_ == 0) crossover_ = tokens;
  }

  void print_crossover() {
    if (crossover_ > 0)
      std::printf("  cuBLAS is faster from %lld tokens on\n", static_cast<long long>(crossover_));
    else
      std::puts("  cuBLAS is not faster at the largest number of tokens");
    crossover_ = 0;
  }

 private:
  Device device_{Cuda(0)};
  bench::Memory memory_{device_, 0.03F};
  Buffer workspace_{device_, kCublasWorkspaceBytes};
  std::int64_t crossover_ = 0;  // of the product being measured; 0: none yet
};

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  using namespace moetune;
  std::vector<std::string> names;
  std::vector<std::string> tokens{"64", "72", "128", "256", "512", "1024", "2048", "4096"};
  std::vector<std::string> types{"bf16"};
  KernelPath path;
  return bench::run_main([&] {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument.starts_with("tokens="))
        tokens = bench::split(argument.substr(7));
      else if (argument.starts_with("types="))
        types = bench::split(argument.substr(6));
      else if (argument.starts_with("path="))
        path.is_portable = argument == "path=portable";
      else
        names.push_back(argument);
    }
    if (!why_no_cublas().empty()) throw std::runtime_error("nothing to compare with: " + why_no_cublas());
    std::printf("%s, %s kernels of our own\n", cublas_name().c_str(),
                path.is_portable ? "portable" : "the best");
    const auto is_asked = [&](const Product& product) {
      const auto has = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
      return has("all") || has(product.model) || has(std::string(product.model) + ":" + product.name);
    };
    Bench bench;
    for (const std::string& type : types)
      for (const Product& product : kProducts)
        if (is_asked(product)) {
          for (const std::string& count : tokens)
            bench.measure(product, number_type_named(type).value(), std::stoll(count), path);
          bench.print_crossover();
        }
  });
}

#else
int main() { return moetune::bench::without_cuda(); }
#endif
