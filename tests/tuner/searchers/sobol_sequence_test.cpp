#include "tuner/searchers/sobol_sequence.h"

#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(SobolSequence, EqualsPublishedPoints) {
  // Points 1 to 7 of the first ten dimensions, times 8, as SciPy's qmc.Sobol(scramble=False) gives them.
  const std::vector<std::vector<std::uint32_t>> eighths{
      {4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, {6, 2, 2, 2, 6, 6, 2, 6, 6, 6}, {2, 6, 6, 6, 2, 2, 6, 2, 2, 2},
      {3, 3, 5, 7, 3, 1, 3, 7, 7, 5}, {7, 7, 1, 3, 7, 5, 7, 3, 3, 1}, {5, 1, 7, 5, 5, 7, 1, 1, 1, 3},
      {1, 5, 3, 1, 1, 3, 5, 5, 5, 7}};
  const SobolSequence sequence(10);
  for (std::uint32_t point = 0; point < 7; ++point)
    for (std::size_t dimension = 0; dimension < 10; ++dimension)
      EXPECT_EQ(sequence.digits(point + 1, dimension) >> 29, eighths[point][dimension])
          << point + 1 << ", " << dimension;
}

TEST(SobolSequence, EqualsSciPyInEveryDimension) {
  // FNV-1a over the first 12 digits of 4,096 points of 32 dimensions, dimension by dimension, from
  // SciPy 1.17.1.
  std::uint64_t hash = 0;
  const SobolSequence sequence(32);
  for (std::size_t dimension = 0; dimension < 32; ++dimension)
    for (std::uint32_t point = 0; point < 4096; ++point)
      hash = (hash ^ (sequence.digits(point, dimension) >> 20)) * 0x100000001b3U;
  EXPECT_EQ(hash, 0xa04413b1b52e9c00U);
}

// What makes it a Sobol sequence: every aligned block of 2^k points has one point
// in each interval of length 2^-k.
TEST(SobolSequence, EveryCoordinateIsEven) {
  const SobolSequence sequence(SobolSequence::most_dimensions);
  for (std::size_t dimension = 0; dimension < SobolSequence::most_dimensions; ++dimension)
    for (const std::uint32_t first : {0U, 256U, 768U}) {
      std::set<std::uint32_t> plain;
      std::set<int> scrambled;
      for (std::uint32_t point = first; point < first + 256; ++point) {
        plain.insert(sequence.digits(point, dimension) >> 24);
        scrambled.insert(static_cast<int>(sequence.scrambled(point, dimension, 5) * 256));
      }
      EXPECT_EQ(plain.size(), 256U) << dimension;
      EXPECT_EQ(scrambled.size(), 256U) << dimension;  // Owen's scrambling keeps it
    }
}

// Star discrepancy of pairs would be expensive; counting in a grid tells a bad table of
// direction numbers apart as well.
TEST(SobolSequence, PairsOfCoordinatesAreEvenerThanRandom) {
  const SobolSequence sequence(SobolSequence::most_dimensions);
  constexpr std::uint32_t points = 4096;
  for (std::size_t a = 0; a < 20; ++a)
    for (std::size_t b = a + 1; b < 20; ++b) {
      std::vector<int> counts(64, 0);
      for (std::uint32_t point = 0; point < points; ++point)
        ++counts[(sequence.digits(point, a) >> 29) * 8 + (sequence.digits(point, b) >> 29)];
      for (const int count : counts) EXPECT_EQ(count, 64) << a << ", " << b;
    }
}

TEST(SobolSequence, ScramblingDependsOnTheSeedOnly) {
  const SobolSequence sequence(3);
  EXPECT_EQ(sequence.scrambled(11, 2, 7), SobolSequence(5).scrambled(11, 2, 7));
  EXPECT_NE(sequence.scrambled(11, 2, 7), sequence.scrambled(11, 2, 8));
  double sum = 0.0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) sum += sequence.scrambled(0, 1, seed);
  EXPECT_NEAR(sum / 1000, 0.5, 0.04);  // the origin goes anywhere
}

TEST(SobolSequence, RefusesWhatItHasNoNumbersFor) {
  EXPECT_THROW(SobolSequence(0), std::invalid_argument);
  EXPECT_THROW(SobolSequence(33), std::invalid_argument);
}

}  // namespace
}  // namespace moetune
