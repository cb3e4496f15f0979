#include "kernels/attention.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/attend.h"
#include "kernels/grain.h"
#include "kernels/number_convert.h"

namespace moetune {
namespace {
// Symmetric, one scale for `width` numbers; kernels/cuda/cache_number.cuh says the same for a GPU.
void store_scaled(const float* row, std::int64_t width, std::int8_t* to, float& scale) {
  float largest = 0.0F;
  for (std::int64_t i = 0; i < width; ++i) largest = std::max(largest, std::fabs(row[i]));
  scale = largest / 127.0F;
  for (std::int64_t i = 0; i < width; ++i)
    to[i] = static_cast<std::int8_t>(
        scale > 0.0F ? std::clamp(std::nearbyint(row[i] / scale), -127.0F, 127.0F) : 0.0F);
}

void store_row(const float* row, std::int64_t width, const Tensor& cache, std::int64_t index) {
  auto* narrow = cache.as<std::uint16_t>() + index;
  auto* byte = cache.as<std::uint8_t>() + index;
  switch (cache.type()) {
    case NumberType::f32:
      std::memcpy(cache.f32() + index, row, static_cast<std::size_t>(width) * sizeof(float));
      return;
    case NumberType::f16:
      for (std::int64_t i = 0; i < width; ++i) narrow[i] = f16_from_f32(row[i]);
      return;
    case NumberType::bf16:
      for (std::int64_t i = 0; i < width; ++i) narrow[i] = bf16_from_f32(row[i]);
      return;
    case NumberType::fp8:
      for (std::int64_t i = 0; i < width; ++i) byte[i] = fp8_from_f32(row[i]);
      return;
    default:
      throw std::invalid_argument("a KV cache cannot be stored as " + std::string(name_of(cache.type())));
  }
}
}  // namespace

void run(Cpu& cpu, const StoreKv& op) {
  const std::int64_t width = op.rows.dim(1);
  assert(op.cache.rank() == 3 && op.cache.dim(2) == width);
  if ((op.cache.type() == NumberType::int8) == op.scales.empty())
    throw std::invalid_argument("a KV cache of " + std::string(name_of(op.cache.type())) +
                                (op.scales.empty() ? " without" : " with") +
                                " scales (accepted: int8 with, others without)");
  cpu.pool().parallel_for(op.rows.dim(0), grain_for(2 * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t slot = op.sequences.i32()[token];
      const std::int64_t position = op.positions.i32()[token];
      assert(slot >= 0 && slot < op.cache.dim(0) && position >= 0 && position < op.cache.dim(1));
      const float* row = op.rows.f32() + token * op.rows.stride(0);
      const std::int64_t index = slot * op.cache.stride(0) + position * op.cache.stride(1);
      if (op.cache.type() != NumberType::int8) {
        store_row(row, width, op.cache, index);
        continue;
      }
      float* scales = op.scales.f32() + slot * op.scales.stride(0) + position * op.scales.stride(1);
      const std::int64_t heads = op.scales.dim(2);
      for (std::int64_t head = 0; head < heads; ++head)
        store_scaled(row + head * (width / heads), width / heads,
                     op.cache.as<std::int8_t>() + index + head * (width / heads), scales[head]);
    }
  });
}

void run(Cpu& cpu, const Attention& op) {
  const std::int64_t tokens = op.q.dim(0);
  const std::int64_t heads_per_kv_head = op.q.dim(1) / op.kv_heads;
  const std::int64_t head_dim = op.q.dim(2);
  assert(op.q.dim(1) % op.kv_heads == 0 && op.k_cache.dim(2) == op.kv_heads * head_dim);
  assert(op.y.dim(1) == op.q.dim(1) && op.y.dim(2) == head_dim);
  const std::int64_t pieces_per_kv_head = (heads_per_kv_head + kHeadsPerPiece - 1) / kHeadsPerPiece;
  const std::int64_t pieces_per_token = op.kv_heads * pieces_per_kv_head;

  const auto attend_piece = [&](std::int64_t token, std::int64_t piece) {
    const std::int64_t kv_head = piece / pieces_per_kv_head;
    const std::int64_t first_in_group = piece % pieces_per_kv_head * kHeadsPerPiece;
    const std::int64_t slot = op.sequences.i32()[token];
    Attend work;
    work.heads = std::min(kHeadsPerPiece, heads_per_kv_head - first_in_group);
    work.last_position = op.positions.i32()[token];
    work.first_position = op.window > 0 ? std::max<std::int64_t>(0, work.last_position + 1 - op.window) : 0;
    thread_local std::vector<float> widened_keys;
    thread_local std::vector<float> widened_values;
    const auto rows = [&](const Tensor& cache, const Tensor& scales, std::vector<float>& widened) {
      return cache_rows({cache, scales, slot, kv_head, op.kv_heads}, work.first_position, work.last_position,
                        widened);
    };
    work.keys = rows(op.k_cache, op.k_scales, widened_keys);
    work.values = rows(op.v_cache, op.v_scales, widened_values);
    work.scale = op.scale;
    std::array<const float*, kHeadsPerPiece> q{};
    std::array<float*, kHeadsPerPiece> y{};
    for (std::int64_t i = 0; i < work.heads; ++i) {
      const std::int64_t head = kv_head * heads_per_kv_head + first_in_group + i;
      q[static_cast<std::size_t>(i)] = op.q.f32() + token * op.q.stride(0) + head * op.q.stride(1);
      y[static_cast<std::size_t>(i)] = op.y.f32() + token * op.y.stride(0) + head * op.y.stride(1);
    }
    work.q = q.data();
    work.y = y.data();
    attend(work);
  };
  const std::int64_t work_per_piece = heads_per_kv_head * 2 * head_dim * longest_context(op.positions);
  cpu.pool().parallel_for(tokens * pieces_per_token, grain_for(work_per_piece),
                          [&](std::int64_t begin, std::int64_t end) {
                            for (std::int64_t piece = begin; piece < end; ++piece)
                              attend_piece(piece / pieces_per_token, piece % pieces_per_token);
                          });
}

}  // namespace moetune
