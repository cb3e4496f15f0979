#include "engine/matrix_packing.h"

#include <cassert>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "engine/facts/error.h"
#include "kernels/quantize.h"
#include "kernels/tile_packing.h"

namespace moetune {
namespace {

void quantize(Cpu& cpu, const Tensor& source, void* destination, const MatrixLayout& layout,
              const std::string& name) {
  try {
    run(cpu, Quantize{.x = source, .y = destination, .layout = layout});
  } catch (const std::invalid_argument& error) {
    throw InputError("tensor " + name, error.what(),
                     "finite weights within the range of " + std::string(name_of(layout.type)));
  }
}

// int8 scales belong to whole rows, so a part of the columns is cut from packed rows.
void pack_int8_columns(Cpu& cpu, const Tensor& rows, const MatrixShape& part, void* destination,
                       const std::string& name) {
  const MatrixLayout whole = MatrixLayout::of(part.type, rows.dim(0), rows.dim(1));
  const MatrixLayout cut = part.layout();
  std::vector<std::byte> packed(static_cast<std::size_t>(whole.bytes));
  quantize(cpu, rows, packed.data(), whole, name);
  const WeightMatrix from{packed.data(), whole};
  auto* to = static_cast<std::byte*>(destination);
  std::memset(to, 0, static_cast<std::size_t>(cut.bytes));
  for (std::int64_t row = 0; row < cut.out; ++row) {
    std::memcpy(to + row * cut.row_bytes, from.row_values(row) + part.columns.begin,
                static_cast<std::size_t>(part.columns.count));
    std::memcpy(to + cut.scales_offset + row * cut.scale_bytes, from.row_scales(row),
                static_cast<std::size_t>(cut.scale_bytes));
  }
}

}  // namespace

void pack_matrix(Cpu& cpu, const Tensor& source, const MatrixShape& part, void* destination,
                 const std::string& name) {
  const Tensor rows = source.rows(part.rows.begin, part.rows.count);
  const bool cuts_columns = part.columns.count != source.dim(1);
  if (part.type == NumberType::int8 && cuts_columns)
    return pack_int8_columns(cpu, rows, part, destination, name);
  assert(!cuts_columns || quantization_group(part.type) == 0 ||
         part.columns.begin % quantization_group(part.type) == 0);
  quantize(cpu, rows.columns(part.columns.begin, part.columns.count), destination, part.layout(), name);
}

void read_matrix(FileSet& files, Cpu& cpu, const StoredMatrix& source, const MatrixShape& part,
                 void* destination) {
  const MatrixLayout layout = part.layout();
  if (layout.packing == Packing::tiles) {
    MatrixShape rows = part;
    rows.packing = Packing::rows;
    thread_local std::vector<std::byte> packed_rows;
    packed_rows.resize(static_cast<std::size_t>(rows.layout().bytes));
    read_matrix(files, cpu, source, rows, packed_rows.data());
    pack_tiles(cpu, {packed_rows.data(), rows.layout()}, destination);
    return;
  }
  const std::int64_t offset = source.extent.offset + part.rows.begin * source.row_bytes();
  const std::int64_t bytes = part.rows.count * source.row_bytes();
  const bool needs_no_change =
      source.type == part.type && part.columns.count == source.in && layout.row_bytes == source.row_bytes();
  if (needs_no_change)
    return files.read(source.extent.file, offset, static_cast<std::byte*>(destination), bytes);

  thread_local std::vector<std::byte> staging;  // keeps its memory: misses call this for every expert
  staging.resize(static_cast<std::size_t>(bytes));
  files.read(source.extent.file, offset, staging.data(), bytes);
  pack_matrix(cpu, Tensor(staging.data(), source.type, {part.rows.count, source.in}),
              {part.type, {0, part.rows.count}, part.columns}, destination, source.name);
}

}  // namespace moetune
