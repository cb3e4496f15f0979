# Libraries from the distribution. A missing one stops the configure run with the name of its package.
# Wrapped as moetune_<purpose> where the choice may differ between builds.
function(moetune_require package debian_package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} not found. On Debian or Ubuntu: apt-get install ${debian_package} (make test installs all)")
  endif()
  set(MOETUNE_VERSION_${package} "${${package}_VERSION}" CACHE INTERNAL "")
endfunction()

set(CMAKE_THREAD_PREFER_PTHREAD ON)
moetune_require(Threads libc6-dev)
moetune_require(nlohmann_json nlohmann-json3-dev)
moetune_require(fmt libfmt-dev)
moetune_require(CLI11 libcli11-dev)
moetune_require(Eigen3 libeigen3-dev NO_MODULE)
moetune_require(hwy libhwy-dev CONFIG)
moetune_require(SQLite3 libsqlite3-dev)  # traces of Nsight Systems
moetune_require(ZLIB zlib1g-dev)  # compressed traces of PyTorch
if(MOETUNE_TESTS)
  moetune_require(GTest libgtest-dev)
endif()

add_library(moetune_simd INTERFACE)
target_link_libraries(moetune_simd INTERFACE hwy::hwy)

add_library(moetune_parallel INTERFACE)
target_link_libraries(moetune_parallel INTERFACE Threads::Threads)
if(MOETUNE_PARALLEL STREQUAL "TBB")
  moetune_require(TBB libtbb-dev)
  target_link_libraries(moetune_parallel INTERFACE TBB::tbb)
elseif(MOETUNE_PARALLEL STREQUAL "THREADS")
  target_compile_definitions(moetune_parallel INTERFACE MOETUNE_PARALLEL_THREADS=1)
else()
  message(FATAL_ERROR "MOETUNE_PARALLEL=${MOETUNE_PARALLEL}: accepted are TBB and THREADS")
endif()

# valijson (JSON Schema) is header only, but its Debian package drags in Qt and Poco for adapters not used here: the Makefile
# unpacks just its headers into build/packages. An installed one serves as well.
find_path(MOETUNE_VALIJSON_INCLUDE valijson/validator.hpp HINTS ${CMAKE_SOURCE_DIR}/build/packages/usr/include)
if(NOT MOETUNE_VALIJSON_INCLUDE)
  message(FATAL_ERROR "valijson not found. Run 'make packages', or on Debian or Ubuntu: apt-get install libvalijson-dev")
endif()
add_library(moetune_json_schema INTERFACE)
target_include_directories(moetune_json_schema SYSTEM INTERFACE ${MOETUNE_VALIJSON_INCLUDE})
target_compile_definitions(moetune_json_schema INTERFACE VALIJSON_USE_EXCEPTIONS=1)
target_link_libraries(moetune_json_schema INTERFACE nlohmann_json::nlohmann_json)

# Debian splits NLopt into a C and a C++ library with the same symbols: exactly one may be linked, and nlopt.hpp belongs to the second.
add_library(moetune_nlopt INTERFACE)
find_package(NLopt QUIET PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/cmake/nlopt_cxx NO_DEFAULT_PATH)
if(NOT NLopt_FOUND)
  find_package(NLopt QUIET)  # upstream's own package holds both in one library
endif()
if(NLopt_FOUND)
  set(MOETUNE_VERSION_NLopt "${NLOPT_VERSION}")
  target_link_libraries(moetune_nlopt INTERFACE ${NLOPT_LIBRARIES})
endif()
target_compile_definitions(moetune_nlopt INTERFACE MOETUNE_HAS_NLOPT=$<BOOL:${NLopt_FOUND}>)

# cpp-httplib: HTTP for `confirm` and `doctor --url`. Debian ships a pkg-config file only. Its flags decide the layout of the
# library's classes: the files that include <httplib.h> are given them (moetune_uses_http), no other file is compiled anew.
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(MOETUNE_HTTPLIB QUIET cpp-httplib)
endif()
if(NOT MOETUNE_HTTPLIB_FOUND)
  message(FATAL_ERROR "cpp-httplib not found. On Debian or Ubuntu: apt-get install libcpp-httplib-dev libssl-dev pkg-config (make test installs all)")
endif()
add_library(moetune_http INTERFACE)
target_link_libraries(moetune_http INTERFACE ${MOETUNE_HTTPLIB_LINK_LIBRARIES} Threads::Threads)
function(moetune_uses_http)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${MOETUNE_HTTPLIB_CFLAGS_OTHER}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

moetune_require(yaml-cpp libyaml-cpp-dev)
add_library(moetune_yaml INTERFACE)
target_link_libraries(moetune_yaml INTERFACE $<IF:$<TARGET_EXISTS:yaml-cpp::yaml-cpp>,yaml-cpp::yaml-cpp,yaml-cpp>)
