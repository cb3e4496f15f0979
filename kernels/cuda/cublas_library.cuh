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
    const DynamicLibrary* library =
        open_toolkit_library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR),
                             {"/lib64/", "/lib/", "/targets/x86_64-linux/lib/"}, "lib64", problem);
    if (library == nullptr) return;
    const auto load = [&](const char* name, auto& function) {
      find_in_toolkit(*library, "cuBLAS", name, function, problem);
    };
    load("cublasLtGetVersion", version);
    load("cublasLtGetStatusString", status_text);
    load("cublasLtCreate", create);
    load("cublasLtMatmulDescCreate", create_product);
    load("cublasLtMatmulDescSetAttribute", set_product);
    load("cublasLtMatrixLayoutCreate", create_layout);
    load("cublasLtMatmulPreferenceCreate", create_preference);
    load("cublasLtMatmulPreferenceDestroy", destroy_preference);
    load("cublasLtMatmulPreferenceSetAttribute", set_preference);
    load("cublasLtMatmulAlgoGetHeuristic", choose);
    load("cublasLtMatmul", multiply);
  }
};

}  // namespace moetune::cuda
