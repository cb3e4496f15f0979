#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/number_convert.h"

namespace moetune::reference {
namespace {

template <class T>
T load(const std::byte* bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

float cached(const Tensor& cache, std::int64_t index) {
  const auto* bytes = cache.as<const std::byte>();
  switch (cache.type()) {
    case NumberType::f32:
      return load<float>(bytes, index);
    case NumberType::f16:
      return f32_from_f16(load<std::uint16_t>(bytes, index));
    case NumberType::bf16:
      return f32_from_bf16(load<std::uint16_t>(bytes, index));
    case NumberType::fp8:
      return f32_from_fp8(load<std::uint8_t>(bytes, index));
    case NumberType::int8:
      return static_cast<float>(load<std::int8_t>(bytes, index));
    default:
      throw std::invalid_argument("a KV cache cannot be stored as " + std::string(name_of(cache.type())));
  }
}

// What a number of this head's row stands for is the stored one times this.
double scale_of(const Tensor& scales, std::int64_t slot, std::int64_t position, std::int64_t head) {
  if (scales.empty()) return 1.0;
  return static_cast<double>(scales.f32()[slot * scales.stride(0) + position * scales.stride(1) + head]);
}

// In place: scores -> weights that sum to 1.
void softmax(std::vector<double>& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

double silu(double x) { return x / (1.0 + std::exp(-x)); }

}  // namespace

float weight_at(const WeightMatrix& w, std::int64_t row, std::int64_t column) {
  const std::byte* values = w.row_values(row);
  const std::byte* scales = w.row_scales(row);
  switch (w.layout.type) {
    case NumberType::f32:
      return load<float>(values, column);
    case NumberType::f16:
      return f32_from_f16(load<std::uint16_t>(values, column));
    case NumberType::bf16:
      return f32_from_bf16(load<std::uint16_t>(values, column));
    case NumberType::int8:
      return static_cast<float>(load<std::int8_t>(values, column)) * load<float>(scales, 0);
    case NumberType::int4:
    case NumberType::int4_g32: {
      const std::int64_t in_block = column % 32;
      const int both = load<std::uint8_t>(values, column / 32 * 16 + in_block % 16);
      const int nibble = in_block < 16 ? both & 15 : both >> 4;
      const std::int64_t group = column / quantization_group(w.layout.type);
      return static_cast<float>(nibble - 8) * f32_from_f16(load<std::uint16_t>(scales, group));
    }
    case NumberType::fp8:
      return f32_from_fp8(load<std::uint8_t>(values, column)) * load<float>(scales, column / 128);
    case NumberType::mxfp4: {
      const unsigned both = load<std::uint8_t>(values, column / 32 * 16 + column % 16);
      return f32_from_fp4(column % 32 < 16 ? both & 15U : both >> 4) *
             f32_from_e8m0(load<std::uint8_t>(scales, column / 32));
    }
    default:
      throw std::invalid_argument("no weights are stored as " + std::string(name_of(w.layout.type)));
  }
}

void run(const Gemm& op) {
  for (std::int64_t token = 0; token < op.x.dim(0); ++token) {
    const float* x = op.x.f32() + token * op.x.stride(0);
    float* y = op.y.f32() + token * op.y.stride(0);
    for (std::int64_t row = 0; row < op.w.layout.out; ++row) {
      double sum = op.bias.empty() ? 0.0 : static_cast<double>(op.bias.f32()[row]);
      for (std::int64_t i = 0; i < op.w.layout.in; ++i)
        sum += static_cast<double>(weight_at(op.w, row, i)) * static_cast<double>(x[i]);
      y[row] = static_cast<float>(op.accumulate ? static_cast<double>(y[row]) + sum : sum);
    }
  }
}

void run(const PerHeadGemm& op) {
  const std::int64_t out = op.y.dim(2);
  const std::int64_t in = op.x.dim(2);
  for (std::int64_t token = 0; token < op.x.dim(0); ++token)
    for (std::int64_t head = 0; head < op.x.dim(1); ++head) {
      const float* x = op.x.f32() + token * op.x.stride(0) + head * op.x.stride(1);
      float* y = op.y.f32() + token * op.y.stride(0) + head * op.y.stride(1);
      for (std::int64_t row = 0; row < out; ++row) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < in; ++i)
          sum += static_cast<double>(weight_at(op.w, head * out + row, i)) * static_cast<double>(x[i]);
        y[row] = static_cast<float>(sum);
      }
    }
}

void run(const SwiGlu& op) {
  for (std::int64_t row = 0; row < op.gate.dim(0); ++row) {
    const float* gate = op.gate.f32() + row * op.gate.stride(0);
    const float* up = op.up.f32() + row * op.up.stride(0);
    float* y = op.y.f32() + row * op.y.stride(0);
    for (std::int64_t i = 0; i < op.gate.dim(1); ++i)
      y[i] = static_cast<float>(silu(static_cast<double>(gate[i])) * static_cast<double>(up[i]));
  }
}

void run(const RmsNorm& op) {
  const std::int64_t width = op.x.dim(1);
  for (std::int64_t row = 0; row < op.x.dim(0); ++row) {
    const float* x = op.x.f32() + row * op.x.stride(0);
    float* y = op.y.f32() + row * op.y.stride(0);
    double squares = 0.0;
    for (std::int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const double inverse =
        1.0 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(op.eps));
    for (std::int64_t i = 0; i < width; ++i)
      y[i] =
          static_cast<float>(static_cast<double>(x[i]) * inverse * static_cast<double>(op.weight.f32()[i]));
  }
}

void run(const Attention& op) {
  const std::int64_t heads = op.q.dim(1);
  const std::int64_t head_dim = op.q.dim(2);
  for (std::int64_t token = 0; token < op.q.dim(0); ++token)
    for (std::int64_t head = 0; head < heads; ++head) {
      const float* q = op.q.f32() + token * op.q.stride(0) + head * op.q.stride(1);
      float* y = op.y.f32() + token * op.y.stride(0) + head * op.y.stride(1);
      const std::int64_t slot = op.sequences.i32()[token];
      const std::int64_t last = op.positions.i32()[token];
      const std::int64_t first = op.window > 0 ? std::max<std::int64_t>(0, last + 1 - op.window) : 0;
      const std::int64_t kv_head = head / (heads / op.kv_heads);
      const auto at = [&](const Tensor& cache, const Tensor& scales, std::int64_t position, std::int64_t i) {
        const std::int64_t index =
            slot * cache.stride(0) + position * cache.stride(1) + kv_head * head_dim + i;
        return static_cast<double>(cached(cache, index)) * scale_of(scales, slot, position, kv_head);
      };
      std::vector<double> weights;
      for (std::int64_t position = first; position <= last; ++position) {
        double score = 0.0;
        for (std::int64_t i = 0; i < head_dim; ++i)
          score += static_cast<double>(q[i]) * at(op.k_cache, op.k_scales, position, i);
        weights.push_back(score * static_cast<double>(op.scale));
      }
      softmax(weights);
      for (std::int64_t i = 0; i < head_dim; ++i) {
        double sum = 0.0;
        for (std::int64_t position = first; position <= last; ++position)
          sum +=
              weights[static_cast<std::size_t>(position - first)] * at(op.v_cache, op.v_scales, position, i);
        y[i] = static_cast<float>(sum);
      }
    }
}

void run(const MlaAttention& op) {
  const std::int64_t rank = op.q_latent.dim(2);
  const std::int64_t rope_dim = op.q_rope.dim(2);
  for (std::int64_t token = 0; token < op.q_latent.dim(0); ++token)
    for (std::int64_t head = 0; head < op.q_latent.dim(1); ++head) {
      const float* latent = op.q_latent.f32() + token * op.q_latent.stride(0) + head * op.q_latent.stride(1);
      const float* rotated = op.q_rope.f32() + token * op.q_rope.stride(0) + head * op.q_rope.stride(1);
      float* y = op.y.f32() + token * op.y.stride(0) + head * op.y.stride(1);
      const std::int64_t slot = op.sequences.i32()[token];
      const std::int64_t last = op.positions.i32()[token];
      const auto at = [&](std::int64_t position, std::int64_t i) {
        const std::int64_t index = slot * op.cache.stride(0) + position * op.cache.stride(1) + i;
        return static_cast<double>(cached(op.cache, index)) * scale_of(op.scales, slot, position, 0);
      };
      std::vector<double> weights;
      for (std::int64_t position = 0; position <= last; ++position) {
        double score = 0.0;
        for (std::int64_t i = 0; i < rank; ++i) score += static_cast<double>(latent[i]) * at(position, i);
        for (std::int64_t i = 0; i < rope_dim; ++i)
          score += static_cast<double>(rotated[i]) * at(position, rank + i);
        weights.push_back(score * static_cast<double>(op.scale));
      }
      softmax(weights);
      for (std::int64_t i = 0; i < rank; ++i) {
        double sum = 0.0;
        for (std::int64_t position = 0; position <= last; ++position)
          sum += weights[static_cast<std::size_t>(position)] * at(position, i);
        y[i] = static_cast<float>(sum);
      }
    }
}

void run(const ExpertFfn& op) {
  const std::int64_t hidden = op.x.dim(1);
  const std::int64_t inner = op.layout.gate.out;
  const std::int64_t k = op.ids.dim(1);
  std::vector<float> gate(static_cast<std::size_t>(inner));
  std::vector<float> up(static_cast<std::size_t>(inner));
  const Tensor gate_row(gate.data(), NumberType::f32, {1, inner});
  const Tensor up_row(up.data(), NumberType::f32, {1, inner});
  for (std::int64_t token = 0; token < op.x.dim(0); ++token)
    for (std::int64_t choice = 0; choice < k; ++choice) {
      const std::int32_t expert = op.ids.i32()[token * op.ids.stride(0) + choice];
      const std::int32_t slot = op.slot_of_expert.i32()[expert];
      if (slot < 0) continue;
      const auto* weights = static_cast<const std::byte*>(op.slots) + slot * op.layout.bytes;
      float* row = op.rows.f32() + token * op.rows.stride(0) + choice * op.rows.stride(1);
      run(Gemm{.x = op.x.rows(token, 1), .w = op.layout.gate_of(weights), .y = gate_row, .bias = {}});
      run(Gemm{.x = op.x.rows(token, 1), .w = op.layout.up_of(weights), .y = up_row, .bias = {}});
      run(SwiGlu{.gate = gate_row, .up = up_row, .y = gate_row});
      run(Gemm{.x = gate_row,
               .w = op.layout.down_of(weights),
               .y = Tensor(row, NumberType::f32, {1, hidden}),
               .bias = {}});
    }
}

}  // namespace moetune::reference
