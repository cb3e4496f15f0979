// What is said about a server command before anything of it: title, cautions, versions. Start at
// command_head().
#pragma once

#include "tuner/export/translate.h"

namespace moetune {

// A command without lines.
ServerCommand command_head(const LaunchProfile& profile, const ServerTable& table, const KnobNames& names,
                           const ExportInputs& inputs);

}  // namespace moetune
