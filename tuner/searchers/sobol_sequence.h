// A Sobol sequence with Owen's scrambling: points that fill a cube more evenly than random ones do, and of
// which every start is a design of its own. Direction numbers: S. Joe and F. Y. Kuo, "Constructing Sobol
// sequences with better two-dimensional projections", SIAM J. Sci. Comput. 30 (2008), their table
// "new-joe-kuo-6". Scrambling: A. B. Owen, "Randomly permuted (t,m,s)-nets and (t,s)-sequences" (1995): the
// digits of a coordinate are flipped at random, each depending on all digits before it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace moetune {

class SobolSequence {
 public:
  static constexpr std::size_t most_dimensions = 32;

  explicit SobolSequence(std::size_t dimensions);  // 1 .. most_dimensions, else std::invalid_argument

  // 32 binary digits of a coordinate, not scrambled: point 0 is the origin, then Gray-code order as usual.
  std::uint32_t digits(std::uint32_t point, std::size_t dimension) const;
  // The scrambled coordinate in [0, 1).
  double scrambled(std::uint32_t point, std::size_t dimension, std::uint64_t seed) const;

 private:
  std::vector<std::array<std::uint32_t, 32>> directions_;  // by dimension
};

}  // namespace moetune
