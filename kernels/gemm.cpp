#include "kernels/gemm.h"

#include "kernels/reference.h"

namespace moetune {

void run(Cpu&, const Gemm& op) { reference::run(op); }

}  // namespace moetune
