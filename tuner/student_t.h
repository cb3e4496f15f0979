// How far a mean of few values may be off, in standard errors.
#pragma once

#include <cstdint>

namespace moetune {

// 97.5 % quantile of Student's t; degrees >= 1.
double student_t_975(std::int64_t degrees);

}  // namespace moetune
