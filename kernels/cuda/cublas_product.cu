#include "kernels/cuda/cublas_product.cuh"

#include <stdexcept>

#include "kernels/dense_choice.h"

#ifndef MOETUNE_HAS_CUBLAS_HEADER
#define MOETUNE_HAS_CUBLAS_HEADER 0
#endif

#if MOETUNE_HAS_CUBLAS_HEADER

#include <map>
#include <mutex>
#include <tuple>

#include "kernels/cuda/check.cuh"
#include "kernels/cuda/cublas_library.cuh"
#include "kernels/cuda/state.cuh"

namespace moetune {
namespace cuda {
namespace {

const CublasLibrary& cublas() { return CublasLibrary::get(); }

// cuBLAS counts columns first: its D (out, tokens) is our y.
struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t w = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

// Bytes at whose multiples a pointer lies, as far as kernels care.
std::uint32_t alignment_of(const void* data) {
  constexpr std::uintptr_t kMost = 256;
  const auto address = reinterpret_cast<std::uintptr_t>(data) | kMost;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

using Shape = std::tuple<int, int, int, std::int64_t, std::uint32_t, bool, bool>;
Shape shape_of(const CublasProduct& op) {
  return {op.out, op.tokens, op.width, op.y_stride, alignment_of(op.y), op.bias != nullptr, op.accumulates};
}

template <class Attribute, class Value>
void set(cublasLtMatmulDesc_t product, Attribute attribute, const Value& value) {
  cublas().check(cublas().set_product(product, attribute, &value, sizeof(value)), "describing a product");
}

cublasLtMatrixLayout_t layout(cudaDataType type, int rows, int columns, std::int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  cublas().check(cublas().create_layout(&made, type, static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), stride),
                 "describing a matrix");
  return made;
}

// What is chosen depends on the shape alone: the same product is the same sum every time.
cublasLtMatmulAlgo_t choose(cublasLtHandle_t handle, const Plan& plan, const CublasProduct& op) {
  cublasLtMatmulPreference_t preference = nullptr;
  cublas().check(cublas().create_preference(&preference), "describing what is wanted");
  const auto want = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    cublas().check(cublas().set_preference(preference, attribute, &value, sizeof(value)),
                   "saying what is wanted");
  };
  want(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kCublasWorkspaceBytes});
  const std::uint32_t alignment = alignment_of(op.y);
  want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublas().choose(handle, plan.product, plan.w, plan.x, plan.y, plan.y, preference, 1, &found, &count);
  cublas().destroy_preference(preference);
  cublas().check(status, "choosing an algorithm");
  if (count == 0) throw std::runtime_error("cuBLAS: no algorithm for a product of this shape");
  return found.algo;
}

Plan make_plan(cublasLtHandle_t handle, const CublasProduct& op) {
  Plan plan;
  cublas().check(cublas().create_product(&plan.product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                 "describing a product");
  set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (op.bias != nullptr) {
    set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, op.bias);
  }
  plan.w = layout(CUDA_R_16BF, op.width, op.out, op.width);
  plan.x = layout(CUDA_R_16BF, op.width, op.tokens, op.width);
  plan.y = layout(CUDA_R_32F, op.out, op.tokens, op.y_stride);
  plan.algorithm = choose(handle, plan, op);
  return plan;
}

// Of one GPU, for the rest of the process.
class Plans {
 public:
  explicit Plans(int ordinal) {
    CUDA_TRY(cudaSetDevice(ordinal));
    cublas().check(cublas().create(&handle_), "starting on this GPU");
  }

  void multiply(cudaStream_t stream, const CublasProduct& op) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = plans_.try_emplace(shape_of(op));
    if (is_new) {
      try {
        at->second = make_plan(handle_, op);
      } catch (...) {
        plans_.erase(at);
        throw;
      }
    }
    const Plan& plan = at->second;
    if (op.bias != nullptr) set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, op.bias);
    const float one = 1.0F;
    const float before = op.accumulates ? 1.0F : 0.0F;
    cublas().check(cublas().multiply(handle_, plan.product, &one, op.w, plan.w, op.x, plan.x, &before, op.y,
                                     plan.y, op.y, plan.y, &plan.algorithm, op.workspace,
                                     static_cast<std::size_t>(kCublasWorkspaceBytes), stream),
                   "a product");
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Shape, Plan> plans_;
};

Plans& plans_of(int ordinal) {
  static std::mutex mutex;
  static auto& all = *new std::map<int, Plans>;  // never destroyed: the context may be gone by then
  const std::lock_guard lock(mutex);
  return all.try_emplace(ordinal, ordinal).first->second;
}

}  // namespace

void cublas_product(Cuda& cuda, const CublasProduct& op) {
  if (!cublas_problem_here().empty()) throw std::runtime_error("cuBLAS: " + cublas_problem_here());
  plans_of(cuda.state().ordinal).multiply(cuda.state().stream, op);
}

}  // namespace cuda

const std::string& cublas_problem_here() { return cuda::CublasLibrary::get().problem; }

std::string cublas_name() {
  if (!cublas_problem_here().empty()) return "";
  const std::size_t version = cuda::CublasLibrary::get().version();
  return "cuBLAS " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace moetune

#else

namespace moetune {

const std::string& cublas_problem_here() {
  static const std::string reason = "this program was built without the header of cuBLAS";
  return reason;
}
std::string cublas_name() { return ""; }

void cuda::cublas_product(Cuda&, const CublasProduct&) {
  throw std::runtime_error("cuBLAS: " + cublas_problem_here());
}

}  // namespace moetune

#endif
