// The table and the document of 'measure --op'.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tuner/commands/op_measurement.h"
#include "tuner/commands/table.h"

namespace moetune {

// A row for each op with each number of tokens.
Table op_table(const OpMeasurement& found);

// notes: those beside the table.
nlohmann::json op_document(const OpMeasurement& found, const std::vector<std::string>& notes);

}  // namespace moetune
