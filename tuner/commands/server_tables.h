// The tables of what servers accept, from the program's data. Start at server_tables().
#pragma once

#include <string>
#include <vector>

#include "tuner/export/knob_names.h"
#include "tuner/export/server_table.h"

namespace moetune {

// Throw InputError where there are none, naming where they were looked for and how to say where they lie.
std::string found_server_tables_folder();
std::vector<ServerTable> server_tables();
KnobNames server_knob_names();

}  // namespace moetune
