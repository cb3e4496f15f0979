#include "kernels/swiglu.h"

#include "kernels/reference.h"

namespace moetune {

void run(Cpu&, const SwiGlu& op) { reference::run(op); }

}  // namespace moetune
