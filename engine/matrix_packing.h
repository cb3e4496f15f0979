// Checkpoint tensors into the byte layouts that the ops read, whole or as a tensor-parallel part. Start at pack_matrix().
#pragma once

#include <string>
#include <vector>

#include "engine/dense_shapes.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

// Packs rows and columns `part` of source (out, in) f32, f16 or bf16 into part.layout().bytes bytes of host memory. The
// numbers are those of the whole matrix packed and then cut: an int8 row keeps the scale of its full width.
// A cut inside an int4 group is our own mistake: objection_to() (memory_plan.h) refuses it.
// Throws InputError naming `name` for weights that are not finite or do not fit the type.
void pack_matrix(Cpu& cpu, const Tensor& source, const MatrixShape& part, void* destination, const std::string& name);

// A tensor of any float type as f32.
std::vector<float> widened(Cpu& cpu, const Tensor& source, const std::string& name);

// Tells the kernel that the mapped pages under a view are not needed for now: they come back from the file when touched.
void drop_mapped_pages(const Tensor& mapped);

}  // namespace moetune
