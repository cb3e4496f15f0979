// A point of a run in the words of every server: what the page shows beside a picked one. Start at
// flags_of_point(). It names no model, as the page cannot ask for one: `moetune export --trial N` prints
// whole commands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/export/translate.h"

namespace moetune {

struct PointFlags {
  std::string server;             // "llama.cpp", as --server takes it
  std::string name;               // for people
  std::string text;               // variables and flags for a shell; empty: it needs none
  std::vector<std::string> lost;  // "expert_cache=0.5: why"
  std::string problem;            // why there is nothing above; empty: there is
};

// profile: what the point is of; its recommended point is not looked at.
std::vector<PointFlags> flags_of_point(LaunchProfile profile, const ProfilePoint& point,
                                       const std::vector<ServerTable>& tables, const KnobNames& names,
                                       const std::optional<ExportModel>& model);

}  // namespace moetune
