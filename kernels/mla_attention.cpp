#include "kernels/mla_attention.h"

#include "kernels/reference.h"

namespace moetune {

void run(Cpu&, const MlaAttention& op) { reference::run(op); }
void run(Cpu&, const PerHeadGemm& op) { reference::run(op); }

}  // namespace moetune
