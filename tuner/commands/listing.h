// What there is of one kind, for 'moetune list': rows for people, a document for programs, names for shells.
// list.cpp has the kinds.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tuner/commands/table.h"

namespace moetune {

struct Listing {
  Table table = {};
  nlohmann::json document = nlohmann::json::array();  // one object per entry
  std::string name_field = "name";  // of an entry, which holds the word that a command line takes
  std::string when_empty = {};
  std::string remarks = {};                // below the table
  std::vector<std::string> left_out = {};  // files that are none of the kind, and why
};

// Models, embedded and presets, with the bytes of their weights.
Listing list_models();

// What a search is made of.
Listing list_spaces();
Listing list_workloads();
Listing list_knobs();
Listing list_metrics();
Listing list_searchers();

// The registry of profiles; a file that is none is left out, by name.
Listing list_profiles();
// The nearest to the box first, with the rung that each stands on. hardware: auto, cpu or cuda; InputError:
// another word.
Listing list_profiles_for(const std::string& hardware);

// What lies outside: boxes that can be had, servers that can be started, and what is said about them.
Listing list_hardware();
Listing list_servers();
Listing list_claims();

}  // namespace moetune
