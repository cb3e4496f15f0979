# Writes generated/moetune/build_info.h at every build: version, commit, build type. The file is only touched when something in it
# changed, so a build after a commit compiles the few files that include it and no other.
add_custom_target(moetune_build_info ALL
  COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${CMAKE_SOURCE_DIR} -D HEADER=${CMAKE_BINARY_DIR}/generated/moetune/build_info.h
          -D VERSION=${PROJECT_VERSION} -D BUILD_TYPE=${CMAKE_BUILD_TYPE} -D HAS_CUDA=${MOETUNE_HAS_CUDA}
          -D CUDA_VERSION=${CMAKE_CUDA_COMPILER_VERSION} -D GPU_WITHOUT_TOOLKIT=${MOETUNE_GPU_WITHOUT_TOOLKIT}
          -D SANITIZE=${MOETUNE_SANITIZE} -D COMPILER=${CMAKE_CXX_COMPILER_ID}-${CMAKE_CXX_COMPILER_VERSION}
          -P ${CMAKE_SOURCE_DIR}/cmake/write_build_info.cmake
  BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/moetune/build_info.h
  COMMENT "build_info.h" VERBATIM)
