// The knob table: the one list of everything that can be tuned. Space files, --set, help, report headings and
// switch costs all come from it. Start at knobs(); set_knob() applies one value to EngineOptions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/facts/engine_options.h"

namespace moetune {

// What changing a knob costs a running worker, cheapest first.
enum class SwitchCost : std::uint8_t { none, graph, cache, weights, process };

struct Knob {
  std::string_view name;      // as in space files and --set
  std::string_view unit;      // "" when it has none
  std::string_view accepted;  // in words, for messages
  SwitchCost switch_cost;
  bool changes_output;       // may the logits differ?
  bool in_default_space;     // one of the mission's five
  std::string_view meaning;  // one line
  // Writes a value (its JSON text without quotes, e.g. "0.25", "int4", "on") into the options.
  // Throws InputError naming the knob, the value and what is accepted.
  void (*set)(EngineOptions& options, std::string_view value);
  // The canonical text of the field, so that get(set(x)) == canonical x.
  std::string (*get)(const EngineOptions& options);
};

std::span<const Knob> knobs();
const Knob& knob_named(std::string_view name);  // throws InputError with the accepted names
void set_knob(EngineOptions& options, std::string_view name, std::string_view value);

}  // namespace moetune
