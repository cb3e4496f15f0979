// Dense products of whole models on a GPU: cuBLAS's cublasGemmEx (bf16 in, f32 sums) beside this engine's own
// op, each in one CUDA graph over matrices of its own, so that no weight is in the L2 cache when it is read.
//
//   cuda_cublas_bench [model ...] [tokens=16,64,512,4096]
//
// model: qwen3, mixtral, v3 or all. cuBLAS is given bf16 activations; the own op ("here") takes f32 and
// rounds them itself. cuBLAS is opened at run time. Prints microseconds of both, their ratio, and TFLOP/s of
// the faster.
#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/run.h"
#include "tests/bench/cuda_bench.h"

#ifndef MOETUNE_HAS_CUBLAS_HEADER
#define MOETUNE_HAS_CUBLAS_HEADER 0
#endif

#if MOETUNE_HAS_CUDA && MOETUNE_HAS_CUBLAS_HEADER

#include <cublas_v2.h>
#include <dlfcn.h>

#include "kernels/cuda/state.cuh"

namespace moetune {
namespace {

constexpr std::int64_t kL2Bytes = std::int64_t{60} << 20;
constexpr std::int64_t kMostResultBytes = std::int64_t{3} << 30;  // larger results are left out

struct Product {
  const char* model;
  const char* name;
  std::int64_t out, in;
};
constexpr Product kProducts[] = {
    {"qwen3", "qkv", 5120, 2048},      {"qwen3", "o", 2048, 4096},        {"qwen3", "head", 151936, 2048},
    {"mixtral", "qkv", 6144, 4096},    {"mixtral", "o", 4096, 4096},      {"mixtral", "head", 32000, 4096},
    {"v3", "q_a+kv_a", 2112, 7168},    {"v3", "q_b", 24576, 1536},        {"v3", "o", 7168, 16384},
    {"v3", "dense gate", 18432, 7168}, {"v3", "dense down", 7168, 18432}, {"v3", "head", 129280, 7168}};

class Cublas {
 public:
  Cublas(cudaStream_t stream, void* workspace, std::size_t bytes) {
    void* library = nullptr;
    for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
      if (library = dlopen(name, RTLD_NOW); library != nullptr) break;
    if (library == nullptr) throw std::runtime_error(std::string("cuBLAS cannot be opened: ") + dlerror());
    load(library, "cublasCreate_v2", create_);
    load(library, "cublasSetStream_v2", set_stream_);
    load(library, "cublasSetWorkspace_v2", set_workspace_);
    load(library, "cublasGemmEx", gemm_);
    check(create_(&handle_), "cublasCreate");
    check(set_stream_(handle_, stream), "cublasSetStream");
    check(set_workspace_(handle_, workspace, bytes),
          "cublasSetWorkspace");  // a captured graph must not allocate
  }
  // y (tokens, out) f32 = x (tokens, in) w^T, w (out, in), both bf16.
  void product(const void* w, const void* x, void* y, std::int64_t out, std::int64_t tokens,
               std::int64_t in) const {
    const float one = 1.0F;
    const float zero = 0.0F;
    const auto as_int = [](std::int64_t value) { return static_cast<int>(value); };
    check(gemm_(handle_, CUBLAS_OP_T, CUBLAS_OP_N, as_int(out), as_int(tokens), as_int(in), &one, w,
                CUDA_R_16BF, as_int(in), x, CUDA_R_16BF, as_int(in), &zero, y, CUDA_R_32F, as_int(out),
                CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
  }

 private:
  template <class Function>
  static void load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(std::string("cuBLAS without ") + name);
  }
  static void check(cublasStatus_t status, const char* call) {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw std::runtime_error(std::string(call) + " failed with " +
                               std::to_string(static_cast<int>(status)));
  }
  decltype(&cublasCreate_v2) create_ = nullptr;
  decltype(&cublasSetStream_v2) set_stream_ = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace_ = nullptr;
  // Written out: in C++ the name is overloaded.
  using GemmEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                    const void*, const void*, cudaDataType, int, const void*, cudaDataType,
                                    int, const void*, void*, cudaDataType, int, cublasComputeType_t,
                                    cublasGemmAlgo_t);
  GemmEx gemm_ = nullptr;
  cublasHandle_t handle_ = nullptr;
};

class Bench {
 public:
  void measure(const Product& product, std::int64_t tokens) {
    if (tokens * product.out * 4 > kMostResultBytes) return;
    memory_.start_over();
    const std::int64_t bytes = product.out * product.in * 2;
    std::vector<WeightMatrix> layers;
    for (std::int64_t i = 0; i < std::clamp<std::int64_t>(4 * kL2Bytes / bytes, 2, 16); ++i)
      layers.push_back(memory_.matrix(NumberType::bf16, product.out, product.in));
    const Tensor x = memory_.tensor(NumberType::f32, {tokens, product.in});
    const std::vector<float> numbers(static_cast<std::size_t>(x.elements()), 0.25F);
    memory_.put(x, numbers.data());
    const Tensor x16 = memory_.tensor(NumberType::bf16, {tokens, product.in});
    const Tensor y = memory_.tensor(NumberType::f32, {tokens, product.out});
    const double here = bench::microseconds(
        device_, layers, 7, [&](const WeightMatrix& w) { run(device_, Gemm{.x = x, .w = w, .y = y}); });
    // The same memory as rows of bf16: what the numbers are does not matter.
    const double there = bench::microseconds(device_, layers, 7, [&](const WeightMatrix& w) {
      cublas_.product(w.data, x16.data(), y.data(), product.out, tokens, product.in);
    });
    const double flops = 2.0 * static_cast<double>(tokens * product.out * product.in);
    std::printf(
        "%-8s %-10s (%6lld, %5lld) T=%-5lld here %9.2f us  cuBLAS %9.2f us  cuBLAS/here %5.2f  %6.1f "
        "TFLOP/s\n",
        product.model, product.name, static_cast<long long>(product.out), static_cast<long long>(product.in),
        static_cast<long long>(tokens), here, there, there / here, flops / (std::min(here, there) * 1e6));
    std::fflush(stdout);
  }

 private:
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{64} << 20;
  Device device_{Cuda(0)};
  bench::Memory memory_{device_, 0.03F};
  Buffer workspace_{device_, kWorkspaceBytes};
  Cublas cublas_{std::get<Cuda>(device_).state().stream, workspace_.data(), kWorkspaceBytes};
};

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  using namespace moetune;
  std::vector<std::string> names;
  std::vector<std::string> tokens{"16", "64", "512", "4096"};
  return bench::run_main([&] {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument.starts_with("tokens="))
        tokens = bench::split(argument.substr(7));
      else
        names.push_back(argument);
    }
    Bench bench;
    for (const Product& product : kProducts)
      if (std::ranges::find(names, product.model) != names.end() ||
          std::ranges::find(names, "all") != names.end())
        for (const std::string& count : tokens) bench.measure(product, std::stoll(count));
  });
}

#else
int main() {
  std::puts("built without CUDA or without the header of cuBLAS: nothing to measure");
  return 0;
}
#endif
