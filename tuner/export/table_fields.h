// Lists and maps in the JSON tables of this folder.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/json_fields.h"

namespace moetune {

// A list of texts; empty where the field is absent. Throws InputError for anything else.
std::vector<std::string> texts_or_none(const JsonFields& fields, std::string_view field);
// An object whose values are texts; empty where the field is absent.
std::map<std::string, std::string> text_map_or_none(const JsonFields& fields, std::string_view field);
// Calls with each object of a list.
void for_each_object(const JsonFields& fields, std::string_view field,
                     const std::function<void(const JsonFields&)>& read);

}  // namespace moetune
