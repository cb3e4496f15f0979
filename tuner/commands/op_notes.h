// What a reader of the table of 'measure --op' has to know beside its numbers.
#pragma once

#include <string>
#include <vector>

#include "tuner/commands/op_measurement.h"

namespace moetune {

// Sentences, without those of CutShortOps.
std::vector<std::string> op_notes(const OpMeasurement& found);

}  // namespace moetune
