// A matrix in rows (weight_matrix.h) into tiles (tile_layout.h), on the host: the same numbers in another
// order.
#pragma once

#include "kernels/device.h"
#include "kernels/weight_matrix.h"

namespace moetune {

// to: MatrixLayout::of(type, out, in, Packing::tiles).bytes bytes of host memory; padding becomes zero.
// Throws std::invalid_argument for a type without tiles.
void pack_tiles(Cpu& cpu, const WeightMatrix& from, void* to);

}  // namespace moetune
