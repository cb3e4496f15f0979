// Which instruction sets the SIMD files are compiled for: a plain baseline, AVX2 and AVX-512 (or NEON). Each
// costs compile time and bytes in the program, and those between them would serve few machines. Included
// before any header of Highway.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
