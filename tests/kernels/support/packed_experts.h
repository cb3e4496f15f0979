// Made-up experts that lie in slots, as rows for the CPU and as tiles on the GPU, and which of them tokens
// want and a wave has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/expert_ffn.h"
#include "kernels/quantize.h"
#include "kernels/run.h"
#include "tests/support/bf16_floats.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {

struct PackedExperts {
  ExpertLayout rows;
  ExpertLayout tiles;
  Buffer slots;   // on the CPU, in `rows`
  Buffer gslots;  // the same experts on the GPU, in `tiles`

  PackedExperts(Device& cpu, Device& gpu, NumberType type, std::int64_t hidden, std::int64_t inner,
                std::int64_t experts)
      : rows(ExpertLayout::of(type, hidden, inner)),
        tiles(ExpertLayout::of(type, hidden, inner, Packing::tiles)),
        slots(cpu, rows.bytes * experts),
        gslots(gpu, tiles.bytes * experts) {
    std::vector<std::byte> packed(static_cast<std::size_t>(tiles.bytes * experts));
    Cpu packer(1);
    for (std::int64_t slot = 0; slot < experts; ++slot) {
      const auto part = [&](const MatrixLayout& matrix, std::int64_t from, std::int64_t to, unsigned seed) {
        const OwnedTensor values = bf16_floats({matrix.out, matrix.in}, seed + static_cast<unsigned>(slot));
        std::byte* block = slots.data() + slot * rows.bytes + from;
        run(cpu, Quantize{.x = values.view(), .y = block, .layout = matrix});
        pack_tiles(packer, {block, matrix}, packed.data() + slot * tiles.bytes + to);
      };
      part(rows.gate, 0, 0, 100);
      part(rows.up, rows.up_offset, tiles.up_offset, 200);
      part(rows.down, rows.down_offset, tiles.down_offset, 300);
    }
    copy_to_device(gpu, packed.data(), gslots.data(), tiles.bytes * experts);
  }
};

// Three of nine experts a token, (tokens, 3): expert 4 by nobody, expert 2 by everybody; -1: no expert, its
// row stays.
inline OwnedTensor choices_of_three(std::int64_t tokens) {
  std::mt19937 random(9);
  std::vector<std::int32_t> choice;
  for (std::int64_t token = 0; token < tokens; ++token) {
    choice.push_back(2);
    choice.push_back(token % 7 == 3 ? -1 : random() % 2 == 0 ? 0 : 8);
    choice.push_back(5 + static_cast<std::int32_t>(random() % 3));
  }
  return ids({tokens, 3}, choice);
}

// Slot of each of nine experts in one of two waves: even experts, then odd ones; slot of expert e is 8 - e.
inline OwnedTensor slots_of_wave(int wave) {
  std::vector<std::int32_t> table;
  for (std::int32_t expert = 0; expert < 9; ++expert) table.push_back(expert % 2 == wave ? 8 - expert : -1);
  return ids(table);
}

}  // namespace moetune::testing

#endif
