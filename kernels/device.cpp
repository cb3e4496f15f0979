#include "kernels/device.h"

namespace moetune {

Cpu::Cpu(int threads) : pool_(std::make_shared<ParallelPool>(threads > 0 ? threads : usable_cores())) {}

int Cpu::threads() const { return pool_->threads(); }

}  // namespace moetune
