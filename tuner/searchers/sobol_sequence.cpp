#include "tuner/searchers/sobol_sequence.h"

#include <stdexcept>
#include <string>

#include "tuner/counter_rng.h"

namespace moetune {
namespace {
constexpr unsigned digit_count = 32;

// One row of the paper's table: a primitive polynomial of `degree` over GF(2), whose inner coefficients are
// the digits of `coefficients`, and the first direction numbers.
struct Polynomial {
  unsigned degree;
  std::uint32_t coefficients;
  std::array<std::uint32_t, 7> first;
};

// Dimensions 2 .. 32; the first one has no polynomial.
constexpr std::array<Polynomial, SobolSequence::most_dimensions - 1> polynomials{{
    {1, 0, {1}},
    {2, 1, {1, 3}},
    {3, 1, {1, 3, 1}},
    {3, 2, {1, 1, 1}},
    {4, 1, {1, 1, 3, 3}},
    {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}},
    {5, 4, {1, 1, 5, 5, 5}},
    {5, 7, {1, 1, 7, 11, 19}},
    {5, 11, {1, 1, 5, 1, 1}},
    {5, 13, {1, 1, 1, 3, 11}},
    {5, 14, {1, 3, 5, 5, 31}},
    {6, 1, {1, 3, 3, 9, 7, 49}},
    {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}},
    {6, 19, {1, 1, 1, 15, 7, 5}},
    {6, 22, {1, 3, 1, 15, 13, 25}},
    {6, 25, {1, 1, 5, 5, 19, 61}},
    {7, 1, {1, 3, 7, 11, 23, 15, 103}},
    {7, 4, {1, 3, 7, 13, 13, 15, 69}},
    {7, 7, {1, 1, 3, 13, 7, 35, 63}},
    {7, 8, {1, 3, 5, 9, 1, 25, 53}},
    {7, 14, {1, 3, 1, 13, 9, 35, 107}},
    {7, 19, {1, 3, 1, 5, 27, 61, 31}},
    {7, 21, {1, 1, 5, 11, 19, 41, 61}},
    {7, 28, {1, 3, 5, 3, 3, 13, 69}},
    {7, 31, {1, 1, 7, 13, 1, 19, 1}},
    {7, 32, {1, 3, 7, 5, 13, 19, 59}},
    {7, 37, {1, 1, 3, 9, 25, 29, 41}},
    {7, 41, {1, 3, 5, 13, 23, 1, 55}},
    {7, 42, {1, 3, 7, 3, 13, 59, 17}},
}};

std::array<std::uint32_t, digit_count> directions_of(const Polynomial& polynomial) {
  std::array<std::uint32_t, digit_count> directions{};
  const unsigned degree = polynomial.degree;
  for (unsigned i = 0; i < digit_count; ++i) {
    if (i < degree) {
      directions[i] = polynomial.first[i] << (digit_count - 1 - i);
      continue;
    }
    directions[i] = directions[i - degree] ^ (directions[i - degree] >> degree);
    for (unsigned k = 1; k < degree; ++k)
      if (((polynomial.coefficients >> (degree - 1 - k)) & 1U) != 0) directions[i] ^= directions[i - k];
  }
  return directions;
}
}  // namespace

SobolSequence::SobolSequence(std::size_t dimensions) {
  if (dimensions < 1 || dimensions > most_dimensions)
    throw std::invalid_argument("Sobol sequence of " + std::to_string(dimensions) +
                                " dimensions: 1 to 32 are possible");
  std::array<std::uint32_t, digit_count> first{};
  for (unsigned i = 0; i < digit_count; ++i) first[i] = std::uint32_t{1} << (digit_count - 1 - i);
  directions_.push_back(first);
  for (std::size_t d = 1; d < dimensions; ++d) directions_.push_back(directions_of(polynomials[d - 1]));
}

std::uint32_t SobolSequence::digits(std::uint32_t point, std::size_t dimension) const {
  std::uint32_t gray = point ^ (point >> 1);
  std::uint32_t result = 0;
  for (unsigned i = 0; gray != 0; ++i, gray >>= 1)
    if ((gray & 1U) != 0) result ^= directions_[dimension][i];
  return result;
}

double SobolSequence::scrambled(std::uint32_t point, std::size_t dimension, std::uint64_t seed) const {
  const std::uint32_t plain = digits(point, dimension);
  const CounterRng rng(seed, RngStage::sobol_scramble, static_cast<std::uint32_t>(dimension));
  std::uint32_t result = 0;
  for (unsigned digit = 0; digit < digit_count; ++digit) {
    // The digits before this one, with a leading 1 so that prefixes of different length differ.
    const std::uint64_t prefix =
        (std::uint64_t{1} << digit) | (digit == 0 ? 0U : plain >> (digit_count - digit));
    const std::uint32_t flip = static_cast<std::uint32_t>(rng.bits(prefix) >> 63);
    result |= (((plain >> (digit_count - 1 - digit)) & 1U) ^ flip) << (digit_count - 1 - digit);
  }
  return static_cast<double>(result) * 0x1p-32;
}

}  // namespace moetune
