// Start at quantize_row(): it picks the packing by type.
#include "kernels/quantize.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/grain.h"
#include "kernels/number_convert.h"

namespace moetune {
namespace {

constexpr std::size_t kBlock = 32;       // elements of an int4 block and of an mxfp4 group
constexpr std::int64_t kFp8Block = 128;  // rows and columns that share a scale

[[noreturn]] void refuse(std::size_t column, const std::string& why) {
  throw std::invalid_argument("column " + std::to_string(column) + ": " + why);
}

void require_finite(std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) refuse(i, "weight is not a finite number");
}

float largest_magnitude(std::span<const float> values) {
  float largest = 0.0F;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

// The smallest f16 that covers largest / 7; the products compared have at most 14 significant bits and are
// exact.
std::uint16_t int4_scale(float largest, std::size_t first_column) {
  std::uint16_t scale = f16_from_f32(largest / kLargestInt4);
  if (f32_from_f16(scale) * kLargestInt4 < largest) ++scale;
  if (!std::isfinite(f32_from_f16(scale)))
    refuse(first_column, "weights are too large for an int4 group with an f16 scale");
  return scale;
}

int rounded(float value, float scale, float limit) {
  if (scale == 0.0F) return 0;
  return static_cast<int>(std::clamp(std::nearbyint(value / scale), -limit, limit));
}

void pack_int8(std::span<const float> values, std::byte* packed, std::byte* scales) {
  const float scale = largest_magnitude(values) / kLargestInt8;
  std::memcpy(scales, &scale, sizeof(scale));
  for (std::size_t i = 0; i < values.size(); ++i)
    packed[i] = static_cast<std::byte>(static_cast<std::int8_t>(rounded(values[i], scale, kLargestInt8)));
}

void pack_int4(std::span<const float> values, std::size_t group, std::byte* packed, std::byte* scales) {
  const std::size_t padded = (values.size() + kBlock - 1) / kBlock * kBlock;
  for (std::size_t begin = 0; begin < padded; begin += group) {
    const std::size_t end = std::min(begin + group, values.size());
    const std::uint16_t bits = int4_scale(largest_magnitude(values.subspan(begin, end - begin)), begin);
    std::memcpy(scales + begin / group * sizeof(bits), &bits, sizeof(bits));
    const float scale = f32_from_f16(bits);
    const auto nibble = [&](std::size_t i) {
      return static_cast<unsigned>((i < end ? rounded(values[i], scale, kLargestInt4) : 0) + 8);
    };
    for (std::size_t block = begin; block < std::min(begin + group, padded); block += kBlock)
      for (std::size_t i = 0; i < kBlock / 2; ++i)
        packed[block / 2 + i] =
            static_cast<std::byte>(nibble(block + i) | (nibble(block + i + kBlock / 2) << 4));
  }
}

// Nibbles of one row, for code(i) of 32-element blocks: byte i holds elements i and i + 16.
void pack_mxfp4(std::span<const float> values, std::byte* packed, std::byte* scales) {
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, values.size());
    const std::uint8_t bits = mxfp4_scale(largest_magnitude(values.subspan(begin, end - begin)));
    scales[begin / kBlock] = static_cast<std::byte>(bits);
    const float scale = f32_from_e8m0(bits);
    const auto code = [&](std::size_t i) { return i < end ? fp4_from_f32(values[i] / scale) : 0U; };
    for (std::size_t i = 0; i < kBlock / 2; ++i)
      packed[begin / 2 + i] = static_cast<std::byte>(code(begin + i) | (code(begin + i + kBlock / 2) << 4));
  }
}

template <class Convert>
void pack_16_bit(std::span<const float> values, std::byte* packed, const Convert& convert) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = convert(values[i]);
    std::memcpy(packed + 2 * i, &bits, sizeof(bits));
  }
}

void quantize_row(std::span<const float> values, const MatrixLayout& layout, std::byte* packed,
                  std::byte* scales) {
  require_finite(values);
  std::memset(packed, 0, static_cast<std::size_t>(layout.row_bytes));
  switch (layout.type) {
    case NumberType::f32:
      if (!values.empty()) std::memcpy(packed, values.data(), values.size_bytes());
      return;
    case NumberType::f16:
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!std::isfinite(f32_from_f16(f16_from_f32(values[i])))) refuse(i, "weight is too large for f16");
      return pack_16_bit(values, packed, f16_from_f32);
    case NumberType::bf16:
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!std::isfinite(f32_from_bf16(bf16_from_f32(values[i]))))
          refuse(i, "weight is too large for bf16");
      return pack_16_bit(values, packed, bf16_from_f32);
    case NumberType::int8:
      return pack_int8(values, packed, scales);
    case NumberType::int4:
    case NumberType::int4_g32:
      return pack_int4(values, static_cast<std::size_t>(quantization_group(layout.type)), packed, scales);
    case NumberType::mxfp4:
      return pack_mxfp4(values, packed, scales);
    default:
      throw std::invalid_argument("cannot quantize to " + std::string(name_of(layout.type)));
  }
}

void widen_row(const Tensor& x, std::int64_t row, std::span<float> values) {
  const std::int64_t begin = row * x.stride(0);
  const auto* narrow = x.as<const std::uint16_t>() + begin;
  switch (x.type()) {
    case NumberType::f32:
      std::copy_n(x.f32() + begin, values.size(), values.begin());
      return;
    case NumberType::f16:
      std::transform(narrow, narrow + values.size(), values.begin(), f32_from_f16);
      return;
    case NumberType::bf16:
      std::transform(narrow, narrow + values.size(), values.begin(), f32_from_bf16);
      return;
    default:
      throw std::invalid_argument("cannot quantize from " + std::string(name_of(x.type())));
  }
}

template <class T>
T load(const std::byte* bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

void unpack_int4(const std::byte* packed, const std::byte* scales, std::int64_t group, std::int64_t in,
                 float* y) {
  constexpr auto block = static_cast<std::int64_t>(kBlock);
  for (std::int64_t i = 0; i < in; ++i) {
    const std::int64_t in_block = i % block;
    const int both = load<std::uint8_t>(packed, i / block * (block / 2) + in_block % (block / 2));
    const int nibble = in_block < block / 2 ? both & 15 : both >> 4;
    y[i] = static_cast<float>(nibble - 8) * f32_from_f16(load<std::uint16_t>(scales, i / group));
  }
}

void unpack_mxfp4(const std::byte* packed, const std::byte* scales, std::int64_t in, float* y) {
  constexpr auto block = static_cast<std::int64_t>(kBlock);
  for (std::int64_t i = 0; i < in; ++i) {
    const std::int64_t in_block = i % block;
    const unsigned both = load<std::uint8_t>(packed, i / block * (block / 2) + in_block % (block / 2));
    y[i] = f32_from_fp4(in_block < block / 2 ? both & 15U : both >> 4) *
           f32_from_e8m0(load<std::uint8_t>(scales, i / block));
  }
}

[[noreturn]] void refuse_in_row(std::int64_t row, const std::invalid_argument& error) {
  throw std::invalid_argument("row " + std::to_string(row) + ", " + error.what());
}

// Rows [first, end) of one band of blocks, at most kFp8Block of them.
void quantize_fp8_band(const Quantize& op, std::int64_t first, std::int64_t end) {
  const MatrixLayout& layout = op.layout;
  const auto in = static_cast<std::size_t>(layout.in);
  const std::int64_t blocks = layout.scales_per_row;
  std::vector<float> values(in * static_cast<std::size_t>(end - first));
  std::vector<float> scales(static_cast<std::size_t>(blocks), 0.0F);
  const auto row_of = [&](std::int64_t row) {
    return std::span(values).subspan(static_cast<std::size_t>(row - first) * in, in);
  };
  for (std::int64_t row = first; row < end; ++row) {
    widen_row(op.x, row, row_of(row));
    try {
      require_finite(row_of(row));
    } catch (const std::invalid_argument& error) {
      refuse_in_row(row, error);
    }
    for (std::size_t i = 0; i < in; ++i) {
      float& largest = scales[i / static_cast<std::size_t>(kFp8Block)];
      largest = std::max(largest, std::fabs(row_of(row)[i]));
    }
  }
  for (float& scale : scales) scale /= kLargestFp8;
  auto* const matrix = static_cast<std::byte*>(op.y);
  for (std::int64_t row = first; row < end; ++row) {
    std::byte* packed = matrix + row * layout.row_bytes;
    std::memset(packed, 0, static_cast<std::size_t>(layout.row_bytes));
    for (std::size_t i = 0; i < in; ++i) {
      const float scale = scales[i / static_cast<std::size_t>(kFp8Block)];
      packed[i] = static_cast<std::byte>(scale == 0.0F ? 0 : fp8_from_f32(row_of(row)[i] / scale));
    }
    std::memcpy(matrix + layout.scales_offset + row * blocks * layout.scale_bytes, scales.data(),
                scales.size() * sizeof(float));
  }
}

void quantize_rows(Cpu& cpu, const Quantize& op) {
  const MatrixLayout& layout = op.layout;
  auto* const matrix = static_cast<std::byte*>(op.y);
  cpu.pool().parallel_for(layout.out, grain_for(8 * layout.in), [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> values(static_cast<std::size_t>(layout.in));
    for (std::int64_t row = begin; row < end; ++row) {
      widen_row(op.x, row, values);
      const std::int64_t scale_offset =
          layout.scales_offset + row * layout.scales_per_row * layout.scale_bytes;
      try {
        quantize_row(values, layout, matrix + row * layout.row_bytes, matrix + scale_offset);
      } catch (const std::invalid_argument& error) {
        refuse_in_row(row, error);
      }
    }
  });
}

}  // namespace

void dequantize_row(const WeightMatrix& x, std::int64_t row, float* y) {
  assert(row >= 0 && row < x.layout.out);
  const std::int64_t in = x.layout.in;
  const std::byte* values = x.row_values(row);
  const std::byte* scales = x.row_scales(row);
  switch (x.layout.type) {
    case NumberType::f32:
      std::memcpy(y, values, static_cast<std::size_t>(in) * sizeof(float));
      return;
    case NumberType::f16:
      for (std::int64_t i = 0; i < in; ++i) y[i] = f32_from_f16(load<std::uint16_t>(values, i));
      return;
    case NumberType::bf16:
      for (std::int64_t i = 0; i < in; ++i) y[i] = f32_from_bf16(load<std::uint16_t>(values, i));
      return;
    case NumberType::int8: {
      const auto scale = load<float>(scales, 0);
      for (std::int64_t i = 0; i < in; ++i) y[i] = static_cast<float>(load<std::int8_t>(values, i)) * scale;
      return;
    }
    case NumberType::int4:
    case NumberType::int4_g32:
      unpack_int4(values, scales, quantization_group(x.layout.type), in, y);
      return;
    case NumberType::mxfp4:
      unpack_mxfp4(values, scales, in, y);
      return;
    case NumberType::fp8:
      for (std::int64_t i = 0; i < in; ++i)
        y[i] = f32_from_fp8(load<std::uint8_t>(values, i)) * load<float>(scales, i / kFp8Block);
      return;
    default:
      throw std::invalid_argument("cannot dequantize " + std::string(name_of(x.layout.type)));
  }
}

void run(Cpu& cpu, const Quantize& op) {
  const MatrixLayout& layout = op.layout;
  assert(op.x.rank() == 2 && op.x.dim(0) == layout.out && op.x.dim(1) == layout.in && op.y != nullptr);
  auto* matrix = static_cast<std::byte*>(op.y);
  if (layout.type == NumberType::fp8) {
    const std::int64_t bands = (layout.out + kFp8Block - 1) / kFp8Block;
    cpu.pool().parallel_for(
        bands, grain_for(8 * kFp8Block * layout.in), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t band = begin; band < end; ++band)
            quantize_fp8_band(op, band * kFp8Block, std::min((band + 1) * kFp8Block, layout.out));
        });
  } else {
    quantize_rows(cpu, op);
  }
  const std::int64_t used = layout.scales_offset + layout.out * layout.scales_per_row * layout.scale_bytes;
  std::memset(matrix + used, 0, static_cast<std::size_t>(layout.bytes - used));
}

void run(Cpu& cpu, const Dequantize& op) {
  assert(op.y.rank() == 2 && op.y.dim(0) == op.x.layout.out && op.y.dim(1) == op.x.layout.in);
  cpu.pool().parallel_for(op.x.layout.out, grain_for(4 * op.x.layout.in),
                          [&](std::int64_t begin, std::int64_t end) {
                            for (std::int64_t row = begin; row < end; ++row)
                              dequantize_row(op.x, row, op.y.f32() + row * op.y.stride(0));
                          });
}

}  // namespace moetune
