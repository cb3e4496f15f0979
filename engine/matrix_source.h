// Where a matrix's numbers come from: a tensor of a checkpoint, or the generator. One way to load both. Start
// at load_matrix().
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/file_reading.h"
#include "engine/matrix_packing.h"
#include "engine/tensor_names.h"
#include "kernels/device.h"
#include "kernels/generate.h"

namespace moetune {

struct GeneratedMatrix {
  NumberSource numbers;
  std::int64_t out = 0;
  std::int64_t in = 0;
};

using MatrixSource = std::variant<StoredMatrix, GeneratedMatrix>;

// The type the numbers ship in.
NumberType shipped_type(const MatrixSource& source);

// A tensor of a layer (of none: 0); a vector counts as one row. type, deviation: of generated numbers.
MatrixSource matrix_source(const Checkpoint& checkpoint, const NamedTensor& name, int layer, NumberType type,
                           float deviation);
// 1 / sqrt(in): a product with it keeps the size of what it is applied to.
float keeps_size(const NamedTensor& name);

struct ExpertSources {
  MatrixSource gate;
  MatrixSource up;
  MatrixSource down;
};
ExpertSources expert_sources(const Checkpoint& checkpoint, int layer, int expert);

// Part of a matrix into host memory, on the caller's threads.
void read_source(FileSet& files, Cpu& cpu, const MatrixSource& source, const MatrixShape& part,
                 void* destination);

// Part of a matrix into device memory: what is stored is packed by the host, a piece at a time; what is
// generated is made where it stays.
void load_matrix(FileSet& files, Device& device, Cpu& host, const MatrixSource& source,
                 const MatrixShape& part, std::byte* destination);

// All elements as f32; vectors included.
std::vector<float> values_of(FileSet& files, Cpu& host, const MatrixSource& source);

}  // namespace moetune
