// A KV cache for tests: rows of random numbers as StoreKv writes them, in any type, and the numbers it stands
// for.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/number_convert.h"
#include "kernels/run.h"
#include "tests/support/tensors.h"

namespace moetune::testing {

inline constexpr NumberType kCacheTypes[] = {NumberType::f32, NumberType::f16, NumberType::bf16,
                                             NumberType::fp8, NumberType::int8};

struct RandomCache {
  OwnedTensor rows;    // (slots, context, heads * width)
  OwnedTensor scales;  // int8: (slots, context, heads)

  static RandomCache like(const Tensor& rows, const Tensor& scales) {
    Device device = cpu();
    RandomCache made{OwnedTensor(device, rows.type(), {rows.dim(0), rows.dim(1), rows.dim(2)}), {}};
    if (!scales.empty())
      made.scales = OwnedTensor(device, NumberType::f32, {scales.dim(0), scales.dim(1), scales.dim(2)});
    return made;
  }

  static RandomCache of(NumberType type, std::int64_t slots, std::int64_t context, std::int64_t heads,
                        std::int64_t width, unsigned seed) {
    Device device = cpu();
    RandomCache made{OwnedTensor(device, type, {slots, context, heads * width}), {}};
    if (type == NumberType::int8) made.scales = OwnedTensor(device, NumberType::f32, {slots, context, heads});
    std::vector<std::int32_t> slot_of;
    std::vector<std::int32_t> position_of;
    for (std::int64_t i = 0; i < slots * context; ++i) {
      slot_of.push_back(static_cast<std::int32_t>(i / context));
      position_of.push_back(static_cast<std::int32_t>(i % context));
    }
    const OwnedTensor random = random_floats({slots * context, heads * width}, seed);
    const OwnedTensor sequences = ids(slot_of);
    const OwnedTensor positions = ids(position_of);
    run(device, StoreKv{.rows = random.view(),
                        .sequences = sequences.view(),
                        .positions = positions.view(),
                        .cache = made.rows.view(),
                        .scales = made.scales.view()});
    return made;
  }

  std::vector<float> values() const {
    const Tensor& all = rows.view();
    const std::int64_t width = all.dim(2);
    std::vector<float> result;
    for (std::int64_t i = 0; i < all.elements(); ++i) {
      switch (all.type()) {
        case NumberType::f32:
          result.push_back(all.f32()[i]);
          break;
        case NumberType::f16:
          result.push_back(f32_from_f16(all.as<std::uint16_t>()[i]));
          break;
        case NumberType::bf16:
          result.push_back(f32_from_bf16(all.as<std::uint16_t>()[i]));
          break;
        case NumberType::fp8:
          result.push_back(f32_from_fp8(all.as<std::uint8_t>()[i]));
          break;
        default: {
          const std::int64_t heads = scales.view().dim(2);
          const float scale = scales.view().f32()[i / width * heads + i % width / (width / heads)];
          result.push_back(scale * static_cast<float>(all.as<std::int8_t>()[i]));
        }
      }
    }
    return result;
  }
};

}  // namespace moetune::testing
