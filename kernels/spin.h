// Spin: time that passes and nothing else. Part of no model: it is put between ops where an account of a
// step's time is to be shown to see it (engine/sync_tax/injection.h).
#pragma once

#include <cstdint>

#include "kernels/device.h"

namespace moetune {

struct Spin {
  std::int64_t ns = 0;  // at least; 0 on a GPU: a kernel that does nothing, a block on every multiprocessor
};
void run(Cpu& cpu, const Spin& op);
void run(Cuda& cuda, const Spin& op);

}  // namespace moetune
