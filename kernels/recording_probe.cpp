// Where there is no CUDA; else recording_probe.cu.
#include "kernels/recording_probe.h"

#if !MOETUNE_HAS_CUDA

#include <stdexcept>

namespace moetune {

ChainTimes measure_chains() {
  throw std::runtime_error("this build has no GPU code: it was made without a CUDA toolkit (nvcc)");
}

}  // namespace moetune

#endif
