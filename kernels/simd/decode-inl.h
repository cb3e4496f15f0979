// Stored numbers -> vectors of floats, for each instruction set. Start at DecodeF32; the others have the same
// two members. Included by the .cpp files of kernels/simd/ once per instruction set, so it has Highway's
// toggled include guard.
#if defined(MOETUNE_KERNELS_SIMD_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOETUNE_KERNELS_SIMD_DECODE_INL_H_
#undef MOETUNE_KERNELS_SIMD_DECODE_INL_H_
#else
#define MOETUNE_KERNELS_SIMD_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace moetune::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Floats>;
inline constexpr std::int64_t kLanes = hn::MaxLanes(Floats());

inline constexpr std::int64_t kInt4Block = 32;  // elements; 16 bytes
inline constexpr std::int64_t kVectorsPerBlock = kInt4Block / kLanes;

// kBytes of one element, and load(): kLanes elements from any address.
struct DecodeF32 {
  static constexpr std::int64_t kBytes = 4;
  static HWY_INLINE Vector load(const std::byte* from) {
    return hn::LoadU(Floats(), reinterpret_cast<const float*>(from));
  }
};

struct DecodeF16 {
  static constexpr std::int64_t kBytes = 2;
  static HWY_INLINE Vector load(const std::byte* from) {
    const hn::Rebind<hwy::float16_t, Floats> halves;
    return hn::PromoteTo(Floats(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
  }
};

struct DecodeBf16 {
  static constexpr std::int64_t kBytes = 2;
  static HWY_INLINE Vector load(const std::byte* from) {
    const hn::Rebind<hwy::bfloat16_t, Floats> halves;
    return hn::PromoteTo(Floats(), hn::LoadU(halves, reinterpret_cast<const hwy::bfloat16_t*>(from)));
  }
};

// The row's scale is applied to the finished sum.
struct DecodeInt8 {
  static constexpr std::int64_t kBytes = 1;
  static HWY_INLINE Vector load(const std::byte* from) {
    const hn::Rebind<std::int8_t, Floats> bytes;
    const hn::Rebind<std::int32_t, Floats> ints;
    return hn::ConvertTo(Floats(),
                         hn::PromoteTo(ints, hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(from))));
  }
};

// e4m3 by way of f16, whose wider exponent holds its own, subnormal numbers included: bits are shifted into
// place, and what the value then lacks is a power of two, 2^8. No NaN: checkpoints with one are refused.
using HalfBits = hn::Vec<hn::Rebind<std::uint16_t, Floats>>;

HWY_INLINE HalfBits load_bytes(const std::byte* from) {
  const hn::Rebind<std::uint8_t, Floats> bytes;
  const hn::Rebind<std::uint16_t, Floats> words;
  return hn::PromoteTo(words, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from)));
}

HWY_INLINE Vector floats_of_half_bits(HalfBits bits) {
  const hn::Rebind<hwy::float16_t, Floats> halves;
  return hn::PromoteTo(Floats(), hn::BitCast(halves, bits));
}

struct DecodeFp8 {
  static constexpr std::int64_t kBytes = 1;
  static constexpr float kLacks = 0x1p8F;
  static HWY_INLINE Vector load(const std::byte* from) {
    const hn::Rebind<std::uint16_t, Floats> words;
    const HalfBits both = load_bytes(from);
    return floats_of_half_bits(hn::Or(hn::ShiftLeft<8>(hn::And(both, hn::Set(words, 0x80))),
                                      hn::ShiftLeft<7>(hn::And(both, hn::Set(words, 0x7F)))));
  }
};

// The first `count` elements (fewer than kLanes), zeros behind them; reads no byte beyond.
template <class Decode>
HWY_INLINE Vector load_some(const std::byte* from, std::int64_t count) {
  alignas(64) std::byte padded[kLanes * Decode::kBytes] = {};
  // The bound says what count promises: without it GCC warns of a huge copy where kLanes is 1 and nothing can
  // be left.
  std::memcpy(padded, from, std::min(static_cast<std::size_t>(count * Decode::kBytes), sizeof(padded)));
  return Decode::load(padded);
}

// The opposite: writes the first `count` elements only.
HWY_INLINE void store_some(Vector values, float* to, std::int64_t count) {
  alignas(64) float padded[kLanes];
  hn::Store(values, Floats(), padded);
  std::memcpy(to, padded, std::min(static_cast<std::size_t>(count) * sizeof(float), sizeof(padded)));
}

HWY_INLINE float f32_scale(const std::byte* from) {
  float scale;
  std::memcpy(&scale, from, sizeof(scale));
  return scale;
}

// kCount scales that lie side by side. By way of memory, because a broadcast load costs less than moving
// between lanes.
template <std::int64_t kCount>
HWY_INLINE void load_f16_scales(const std::byte* from, float (&scales)[kCount]) {
  const hn::CappedTag<float, kCount> floats;
  const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
  for (std::int64_t i = 0; i < kCount; i += hn::MaxLanes(floats))
    hn::StoreU(hn::PromoteTo(floats, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from) + i)),
               floats, scales + i);
}

// The 32 elements of a block of four bits in their order: the low halves of its 16 bytes, then the high ones.
// Decode::scaled(): of the low four bits of each number.
template <class Decode>
class FourBitBlock {
 public:
  HWY_INLINE void load(const std::byte* block, Vector (&elements)[kVectorsPerBlock]) const {
    const hn::Rebind<std::uint8_t, Floats> bytes;
    const hn::Rebind<std::int32_t, Floats> ints;
    constexpr std::int64_t kHalf = kVectorsPerBlock / 2;
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kHalf; ++i) {
      const auto both =
          hn::PromoteTo(ints, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(block) + i * kLanes));
      elements[i] = static_cast<const Decode&>(*this).scaled(both);
      elements[i + kHalf] = static_cast<const Decode&>(*this).scaled(hn::ShiftRight<4>(both));
    }
  }

 protected:
  using Ints = hn::Vec<hn::Rebind<std::int32_t, Floats>>;
};

// int4: (nibble - 8) * scale. Four bits times the 11 of an f16 are exact in f32, so all ways of computing
// that product give the same number.
class DecodeInt4 : public FourBitBlock<DecodeInt4> {
 public:
  explicit HWY_INLINE DecodeInt4(float scale) { set_scale(scale); }

 private:
  friend class FourBitBlock<DecodeInt4>;

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  // All 16 scaled values lie in one register; the look-up ignores all but the low four bits of an index.
  HWY_INLINE void set_scale(float scale) {
    alignas(64) static constexpr float kValues[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    values_ = hn::Mul(hn::Load(Floats(), kValues), hn::Set(Floats(), scale));
  }
  HWY_INLINE Vector scaled(Ints low_nibbles) const {
    return hn::TableLookupLanes(values_, hn::Indices512<float>{low_nibbles.raw});
  }
  Vector values_;
#else
  HWY_INLINE void set_scale(float scale) {
    scale_ = hn::Set(Floats(), scale);
    eight_ = hn::Set(Floats(), 8.0F * scale);
  }
  HWY_INLINE Vector scaled(Ints low_nibbles) const {
    const hn::Rebind<std::int32_t, Floats> ints;
    const auto nibbles = hn::And(low_nibbles, hn::Set(ints, 15));
    return hn::MulSub(hn::ConvertTo(Floats(), nibbles), scale_, eight_);
  }
  Vector scale_;
  Vector eight_;
#endif
};

// mxfp4: e2m1 times a power of two.
class DecodeMxfp4 : public FourBitBlock<DecodeMxfp4> {
 public:
  explicit HWY_INLINE DecodeMxfp4(float scale) { set_scale(scale); }

 private:
  friend class FourBitBlock<DecodeMxfp4>;
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  HWY_INLINE void set_scale(float scale) {
    alignas(64) static constexpr float kValues[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                      -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
    values_ = hn::Mul(hn::Load(Floats(), kValues), hn::Set(Floats(), scale));
  }
  HWY_INLINE Vector scaled(Ints low_nibbles) const {
    return hn::TableLookupLanes(values_, hn::Indices512<float>{low_nibbles.raw});
  }
  Vector values_;
#elif HWY_TARGET == HWY_AVX2
  // The magnitudes lie in one register; the look-up ignores all but the low three bits of an index.
  HWY_INLINE void set_scale(float scale) {
    alignas(32) static constexpr float kMagnitudes[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    magnitudes_ = hn::Mul(hn::Load(Floats(), kMagnitudes), hn::Set(Floats(), scale));
  }
  HWY_INLINE Vector scaled(Ints low_nibbles) const {
    const hn::Rebind<std::int32_t, Floats> ints;
    const auto sign = hn::ShiftLeft<28>(hn::And(low_nibbles, hn::Set(ints, 8)));
    return hn::Or(hn::TableLookupLanes(magnitudes_, hn::Indices256<float>{low_nibbles.raw}),
                  hn::BitCast(Floats(), sign));
  }
  Vector magnitudes_;
#else
  HWY_INLINE void set_scale(float scale) { scale_ = hn::Set(Floats(), scale); }
  HWY_INLINE Vector scaled(Ints low_nibbles) const {
    const hn::Rebind<std::int32_t, Floats> ints;
    const auto sign = hn::ShiftLeft<28>(hn::And(low_nibbles, hn::Set(ints, 8)));
    const auto doubled = hn::ConvertTo(Floats(), hn::And(low_nibbles, hn::Set(ints, 1)));
    const auto exponent = hn::ShiftRight<1>(hn::And(low_nibbles, hn::Set(ints, 6)));
    const auto is_subnormal = hn::Eq(exponent, hn::Zero(ints));
    const auto normal =
        hn::BitCast(Floats(), hn::Or(hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(ints, 126))),
                                     hn::ShiftLeft<22>(hn::And(low_nibbles, hn::Set(ints, 1)))));
    const auto magnitude = hn::IfThenElse(hn::RebindMask(Floats(), is_subnormal),
                                          hn::Mul(doubled, hn::Set(Floats(), 0.5F)), normal);
    return hn::Mul(hn::BitCast(Floats(), hn::Or(hn::BitCast(ints, magnitude), sign)), scale_);
  }
  Vector scale_;
#endif
};

}  // namespace moetune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
