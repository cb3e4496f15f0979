#include "engine/matrix_packing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "engine/facts/error.h"
#include "kernels/quantize.h"

namespace moetune {
namespace {

void quantize(Cpu& cpu, const Tensor& source, void* destination, const MatrixLayout& layout, const std::string& name) {
  try {
    run(cpu, Quantize{.x = source, .y = destination, .layout = layout});
  } catch (const std::invalid_argument& error) {
    throw InputError("tensor " + name, error.what(), "finite weights within the range of " + std::string(name_of(layout.type)));
  }
}

// int8 scales belong to whole rows, so a part of the columns is cut from packed rows.
void pack_int8_columns(Cpu& cpu, const Tensor& rows, const MatrixShape& part, void* destination, const std::string& name) {
  const MatrixLayout whole = MatrixLayout::of(part.type, rows.dim(0), rows.dim(1));
  const MatrixLayout cut = part.layout();
  std::vector<std::byte> packed(static_cast<std::size_t>(whole.bytes));
  quantize(cpu, rows, packed.data(), whole, name);
  const WeightMatrix from{packed.data(), whole};
  auto* to = static_cast<std::byte*>(destination);
  std::memset(to, 0, static_cast<std::size_t>(cut.bytes));
  for (std::int64_t row = 0; row < cut.out; ++row) {
    std::memcpy(to + row * cut.row_bytes, from.row_values(row) + part.columns.begin, static_cast<std::size_t>(part.columns.count));
    std::memcpy(to + cut.scales_offset + row * cut.scale_bytes, from.row_scales(row), static_cast<std::size_t>(cut.scale_bytes));
  }
}

}  // namespace

void pack_matrix(Cpu& cpu, const Tensor& source, const MatrixShape& part, void* destination, const std::string& name) {
  const Tensor rows = source.rows(part.rows.begin, part.rows.count);
  const bool cuts_columns = part.columns.count != source.dim(1);
  if (part.type == NumberType::int8 && cuts_columns) return pack_int8_columns(cpu, rows, part, destination, name);
  assert(!cuts_columns || quantization_group(part.type) == 0 || part.columns.begin % quantization_group(part.type) == 0);
  quantize(cpu, rows.columns(part.columns.begin, part.columns.count), destination, part.layout(), name);
}

std::vector<float> widened(Cpu& cpu, const Tensor& source, const std::string& name) {
  const std::int64_t count = source.elements();
  const MatrixLayout layout = MatrixLayout::of(NumberType::f32, 1, count);
  std::vector<float> values(static_cast<std::size_t>(layout.bytes) / sizeof(float));
  quantize(cpu, source.reshaped({1, count}), values.data(), layout, name);
  values.resize(static_cast<std::size_t>(count));
  return values;
}

void drop_mapped_pages(const Tensor& mapped) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data());
  const auto end = begin + static_cast<std::uintptr_t>(mapped.elements() * element_bytes(mapped.type()));
  const std::uintptr_t first_page = (begin + page - 1) / page * page;
  const std::uintptr_t end_page = end / page * page;
  // Only advice: nothing is lost when it is refused.
  if (first_page < end_page) ::madvise(reinterpret_cast<void*>(first_page), end_page - first_page, MADV_DONTNEED);
}

}  // namespace moetune
