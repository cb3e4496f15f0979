// Checkpoint tensors into the byte layouts that the ops read, whole or as a tensor-parallel part. Start at
// read_matrix(); pack_matrix() is what it does once the bytes are in memory.
#pragma once

#include <string>

#include "engine/checkpoint.h"
#include "engine/dense_shapes.h"
#include "engine/file_reading.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

// Packs rows and columns `part` of source (out, in) f32, f16 or bf16 into part.layout().bytes bytes of host
// memory. The numbers are those of the whole matrix packed and then cut: an int8 row keeps the scale of its
// full width. A cut inside an int4 group is our own mistake: objection_to() (memory_plan.h) refuses it.
// Throws InputError naming `name` for weights that are not finite or do not fit the type.
void pack_matrix(Cpu& cpu, const Tensor& source, const MatrixShape& part, void* destination,
                 const std::string& name);

// A matrix on disk.
struct StoredMatrix {
  std::string name;  // for messages
  Checkpoint::Extent extent;
  NumberType type = NumberType::f32;
  std::int64_t out = 0;
  std::int64_t in = 0;

  std::int64_t row_bytes() const { return in * element_bytes(type); }
};

// Reads and packs `part` of a matrix, straight into destination where the bytes need no change.
void read_matrix(FileSet& files, Cpu& cpu, const StoredMatrix& source, const MatrixShape& part,
                 void* destination);

}  // namespace moetune
