#include "kernels/placed_attention.h"

namespace moetune {

void run(Cpu& cpu, const PlacedAttention& op) {
  run(cpu, op.place);
  run(cpu, op.attention);
}

void run(Cpu& cpu, const PlacedMlaAttention& op) {
  run(cpu, op.place);
  run(cpu, op.attention);
}

}  // namespace moetune
