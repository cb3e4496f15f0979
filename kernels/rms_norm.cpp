#include "kernels/rms_norm.h"

#include "kernels/reference.h"

namespace moetune {

void run(Cpu&, const RmsNorm& op) { reference::run(op); }

}  // namespace moetune
