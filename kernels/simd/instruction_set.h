// Which instruction set the SIMD loops run with on this machine.
#pragma once

#include <string>

namespace moetune {

// Highway's name of the best compiled one that this machine has: "AVX3" (AVX-512), "AVX2", "SSE2", "NEON" ...
std::string simd_instruction_set();

}  // namespace moetune
