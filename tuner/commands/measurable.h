// Which metrics a study can have no value of, and why: what cannot be measured cannot be searched for, and
// that is said before anything is. Start at why_not_measurable().
#pragma once

#include <string>

#include "tuner/commands/study.h"

namespace moetune {

// Empty: it gets a value. Otherwise the reason, and in `accepted` what would give it one.
struct NotMeasurable {
  std::string reason;
  std::string accepted;
};
NotMeasurable why_not_measurable(const std::string& metric, const Study& study);

// Throws InputError naming --objective and the first metric without a value. objectives: "tpot_ms,kl_mean".
void require_measurable(const std::string& objectives, const Study& study);

}  // namespace moetune
