# The script behind the target moetune_build_info; run with cmake -P.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE commit RESULT_VARIABLE status ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0 OR commit STREQUAL "")
  set(commit unknown)
endif()
if(HAS_CUDA)
  set(has_cuda true)
else()
  set(has_cuda false)
endif()
file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT [[
// What this binary was built from. Written by cmake/write_build_info.cmake; include it in .cpp files only.
#pragma once

#include <string_view>

namespace moetune::build_info {
inline constexpr std::string_view version = "@VERSION@";
inline constexpr std::string_view commit = "@commit@";  // 12 hex digits, "-dirty" when tracked files differ, or "unknown"
inline constexpr std::string_view build_type = "@BUILD_TYPE@";
inline constexpr std::string_view compiler = "@COMPILER@";
inline constexpr std::string_view sanitizers = "@SANITIZE@";  // empty: none
inline constexpr std::string_view cuda_version = "@CUDA_VERSION@";  // of nvcc; empty: built without CUDA
inline constexpr bool has_cuda = @has_cuda@;
inline constexpr bool gpu_without_toolkit = @GPU_WITHOUT_TOOLKIT@;  // the building machine has a GPU and no nvcc
inline constexpr std::string_view toolkit_advice =
    "GPU found, but no CUDA toolkit (nvcc): built for the CPU only. Install CUDA 12.4 or later "
    "(https://developer.nvidia.com/cuda-downloads), put nvcc on the PATH and run make tune again.";
}  // namespace moetune::build_info
]])
