// cuBLASLt's functions, opened at run time: it is twenty times the size of a bundle.
#pragma once

#include <cublasLt.h>

#include <stdexcept>
#include <string>

#include "kernels/cuda/toolkit_library.cuh"

namespace moetune::cuda {

struct CublasLibrary {
  std::string problem;  // why it cannot be used; empty: it can
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtGetStatusString) status_text = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;

  // Opened once, when it is first asked for.
  static const CublasLibrary& get() {
    static const CublasLibrary library;
    return library;
  }

  void check(cublasStatus_t status, const char* what) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw std::runtime_error(std::string("cuBLAS: ") + what + ": " + status_text(status));
  }

 private:
  CublasLibrary() {
    void* handle = open_toolkit_library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR),
                                        {"/lib64/", "/lib/", "/targets/x86_64-linux/lib/"}, "lib64", problem);
    if (handle == nullptr) return;
    load(handle, "cublasLtGetVersion", version);
    load(handle, "cublasLtGetStatusString", status_text);
    load(handle, "cublasLtCreate", create);
    load(handle, "cublasLtMatmulDescCreate", create_product);
    load(handle, "cublasLtMatmulDescSetAttribute", set_product);
    load(handle, "cublasLtMatrixLayoutCreate", create_layout);
    load(handle, "cublasLtMatmulPreferenceCreate", create_preference);
    load(handle, "cublasLtMatmulPreferenceDestroy", destroy_preference);
    load(handle, "cublasLtMatmulPreferenceSetAttribute", set_preference);
    load(handle, "cublasLtMatmulAlgoGetHeuristic", choose);
    load(handle, "cublasLtMatmul", multiply);
  }

  template <class Function>
  void load(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (function == nullptr && problem.empty()) problem = std::string("this machine's cuBLAS has no ") + name;
  }
};

}  // namespace moetune::cuda
