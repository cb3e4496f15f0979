// Part of a generated matrix, from a row and column on.
#pragma once

#include <cstdint>

#include "kernels/generate.h"

namespace moetune::testing {

inline Generate part_of(const NumberSource& source, std::int64_t in, std::int64_t first_row = 0,
                        std::int64_t first_column = 0) {
  Generate op;
  op.source = source;
  op.in = in;
  op.first_row = first_row;
  op.first_column = first_column;
  return op;
}

}  // namespace moetune::testing
