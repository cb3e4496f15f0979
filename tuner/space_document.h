// A space file as it is written, before anything is looked up: exactly what
// search_spaces/search_space.schema.json accepts (a test compares the two). Names, ranges and values get
// their meaning in space_reader.cpp.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tuner/search_space.h"

namespace moetune {

struct SpaceDocument {
  struct Value {
    std::string text;   // canonical
    std::string place;  // "space.json: parameters[0].values[2]"
  };
  struct ConditionText {
    std::string parameter;
    std::vector<Value> any_of;
    std::string place;
  };
  struct ParameterText {
    std::string name;
    Parameter::Kind kind = Parameter::Kind::categorical;
    std::vector<Value> values;  // empty: a range
    std::string range;          // "1..native", "1..cores x2"
    std::vector<ConditionText> active_if;
    Value when_inactive;  // empty text: not given
    std::string place;
  };
  struct ConstraintText {
    std::vector<ConditionText> forbidden;
    std::string reason;
    std::string place;
  };
  std::string name;
  std::vector<ParameterText> parameters;
  std::vector<ConstraintText> constraints;
};

// Throws InputError for whatever the schema rejects.
SpaceDocument read_space_document(const nlohmann::json& document, const std::string& where);

// A range taken apart: "1..native" or, doubling from the first and ending with the last, "1..cores x2".
struct ValueRange {
  std::string first;
  std::string last;
  bool doubling = false;
};
ValueRange parse_value_range(const std::string& text, const std::string& place);  // throws InputError

}  // namespace moetune
