#include "kernels/number_type.h"

#include <array>
#include <utility>

namespace moetune {
namespace {
constexpr std::array<std::pair<NumberType, std::string_view>, 9> kNames{{{NumberType::f32, "f32"},
                                                                         {NumberType::f16, "f16"},
                                                                         {NumberType::bf16, "bf16"},
                                                                         {NumberType::fp8, "fp8"},
                                                                         {NumberType::int8, "int8"},
                                                                         {NumberType::int4, "int4"},
                                                                         {NumberType::int4_g32, "int4_g32"},
                                                                         {NumberType::mxfp4, "mxfp4"},
                                                                         {NumberType::i32, "i32"}}};
}  // namespace

std::string_view name_of(NumberType type) {
  for (const auto& [known, name] : kNames)
    if (known == type) return name;
  return "?";
}

std::optional<NumberType> number_type_named(std::string_view name) {
  for (const auto& [type, known] : kNames)
    if (known == name) return type;
  return std::nullopt;
}

int quantization_group(NumberType type) {
  switch (type) {
    case NumberType::int4:
    case NumberType::fp8:
      return 128;
    case NumberType::int4_g32:
    case NumberType::mxfp4:
      return 32;
    default:
      return 0;
  }
}

}  // namespace moetune
