#include "kernels/attention.h"

#include <cassert>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/grain.h"
#include "kernels/number_convert.h"
#include "kernels/reference.h"

namespace moetune {
namespace {
void store_row(const float* row, std::int64_t width, const Tensor& cache, std::int64_t index) {
  auto* narrow = cache.as<std::uint16_t>() + index;
  switch (cache.type()) {
    case NumberType::f32: std::memcpy(cache.f32() + index, row, static_cast<std::size_t>(width) * sizeof(float)); return;
    case NumberType::f16:
      for (std::int64_t i = 0; i < width; ++i) narrow[i] = f16_from_f32(row[i]);
      return;
    case NumberType::bf16:
      for (std::int64_t i = 0; i < width; ++i) narrow[i] = bf16_from_f32(row[i]);
      return;
    default: throw std::invalid_argument("a KV cache cannot be stored as " + std::string(name_of(cache.type())));
  }
}
}  // namespace

void run(Cpu& cpu, const StoreKv& op) {
  const std::int64_t width = op.rows.dim(1);
  assert(op.cache.rank() == 3 && op.cache.dim(2) == width);
  cpu.pool().parallel_for(op.rows.dim(0), grain_for(2 * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t slot = op.sequences.i32()[token];
      const std::int64_t position = op.positions.i32()[token];
      assert(slot >= 0 && slot < op.cache.dim(0) && position >= 0 && position < op.cache.dim(1));
      store_row(op.rows.f32() + token * op.rows.stride(0), width, op.cache,
                slot * op.cache.stride(0) + position * op.cache.stride(1));
    }
  });
}

void run(Cpu&, const Attention& op) { reference::run(op); }

}  // namespace moetune
