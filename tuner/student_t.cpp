#include "tuner/student_t.h"

#include <array>
#include <cassert>
#include <iterator>

namespace moetune {

double student_t_975(std::int64_t degrees) {
  assert(degrees >= 1);
  constexpr std::array table = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281};
  if (degrees <= std::ssize(table)) return table[static_cast<std::size_t>(degrees - 1)];
  // Expansion around the normal quantile (Abramowitz and Stegun 26.7.5); from 11 degrees on it is right to 4 digits.
  const double z = 1.959964;
  const auto n = static_cast<double>(degrees);
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  const double z7 = z5 * z * z;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

}  // namespace moetune
