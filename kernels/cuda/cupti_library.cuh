// CUPTI's functions, opened at run time: a machine without it loses the recording of kernels and nothing
// else.
#pragma once

#include <cupti.h>

#include <stdexcept>
#include <string>

#include "kernels/cuda/toolkit_library.cuh"

namespace moetune::cuda {

struct CuptiLibrary {
  std::string problem;  // why it cannot be used; empty: it can
  decltype(&cuptiGetVersion) version = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableCallback) enable_callback = nullptr;
  decltype(&cuptiGetCallbackName) callback_name = nullptr;
  decltype(&cuptiGetGraphNodeId) node_id = nullptr;
  decltype(&cuptiGetResultString) result_text = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;

  // Opened once, when it is first asked for.
  static const CuptiLibrary& get() {
    static const CuptiLibrary library;
    return library;
  }

  void check(CUptiResult result, const char* what) const {
    if (result == CUPTI_SUCCESS) return;
    const char* text = nullptr;
    if (result_text(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "unknown";
    throw std::runtime_error(std::string("CUPTI: ") + what + ": " + text + " (" +
                             std::to_string(static_cast<int>(result)) + ")");
  }

 private:
  static constexpr int kMajor =
      CUPTI_API_VERSION / 10000 > 0 ? CUPTI_API_VERSION / 10000 : 12;  // until 12 it was a small number

  CuptiLibrary() {
    const std::string file = "libcupti.so." + std::to_string(kMajor);
    const DynamicLibrary* library =
        open_toolkit_library(file, {"/lib64/", "/extras/CUPTI/lib64/", "/targets/x86_64-linux/lib/"},
                             "lib64 or extras/CUPTI/lib64", problem);
    if (library == nullptr) return;
    const auto load = [&](const char* name, auto& function) {
      find_in_toolkit(*library, "CUPTI", name, function, problem);
    };
    load("cuptiGetVersion", version);
    load("cuptiGetTimestamp", timestamp);
    load("cuptiSubscribe", subscribe);
    load("cuptiUnsubscribe", unsubscribe);
    load("cuptiEnableCallback", enable_callback);
    load("cuptiGetCallbackName", callback_name);
    load("cuptiGetGraphNodeId", node_id);
    load("cuptiGetResultString", result_text);
    load("cuptiActivityEnable", enable);
    load("cuptiActivityDisable", disable);
    load("cuptiActivityRegisterCallbacks", register_callbacks);
    load("cuptiActivityFlushAll", flush);
    load("cuptiActivityGetNextRecord", next_record);
    load("cuptiActivityGetNumDroppedRecords", dropped);
  }
};

}  // namespace moetune::cuda
