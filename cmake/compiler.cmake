# How every file of ours is compiled: language, warnings, sanitizers. Start at moetune_options, which all targets link.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(MOETUNE_CCACHE ccache)
if(MOETUNE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MOETUNE_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${MOETUNE_CCACHE})
endif()

add_library(moetune_warnings INTERFACE)
target_compile_options(moetune_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
# A warning is an error only with the compilers the project is checked with: a newer one knows new warnings, and a user's
# build must not stop at them.
if(MOETUNE_WARNINGS_AS_ERRORS)
  if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13) OR
     (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 20))
    target_compile_options(moetune_warnings INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  else()
    message(STATUS "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} is newer than the checked compilers: warnings stay warnings")
  endif()
endif()
if(MOETUNE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # With -fsanitize g++ 12 sees uninitialized members inside its own <regex> and <functional>.
  target_compile_options(moetune_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # g++ has no sign conversions in -Wconversion, and clang does not see that libstdc++ 12 may use its own deprecated
  # std::get_temporary_buffer in std::stable_sort.
  target_compile_options(moetune_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-sign-conversion -Wno-deprecated-declarations>)
endif()

# Never -march=native: a bundle must start on another machine; kernels/simd/ chooses instructions at run time.
# No contraction: whether a*b+c becomes one rounding must not depend on the inliner, or equal inputs stop giving equal bits.
add_library(moetune_options INTERFACE)
target_include_directories(moetune_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(moetune_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-fast-math -ffp-contract=off>)
target_link_libraries(moetune_options INTERFACE moetune_warnings)

if(MOETUNE_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)  # coverage in every layer; only targets link the driver
endif()
if(MOETUNE_SANITIZE)
  # Global, so that GoogleTest mains and generated files are covered as well. Findings end the program.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MOETUNE_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all> $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${MOETUNE_SANITIZE})
endif()
add_link_options(-Wl,--as-needed)

# Old-style RPATH: unlike RUNPATH it also serves the libraries a bundle carries, which look for each other beside themselves.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
add_link_options(-Wl,--disable-new-dtags)
