// Any bytes as a safetensors file: either InputError or a header whose tensors lie inside the file, one after
// the other.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "engine/facts/error.h"
#include "engine/safetensors.h"
#include "kernels/tensor.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const auto header = moetune::parse_safetensors_header(bytes, static_cast<std::int64_t>(size), "input");
    for (const auto& [name, entry] : header.tensors) {
      require(entry.begin >= 8 && entry.bytes >= 0 &&
              entry.begin + entry.bytes <= static_cast<std::int64_t>(size));
      std::int64_t elements = 1;
      for (const std::int64_t dim : entry.shape) elements *= dim;
      require(entry.bytes == elements * moetune::element_bytes(entry.type));
    }
  } catch (const moetune::InputError&) {
  }
  return 0;
}
