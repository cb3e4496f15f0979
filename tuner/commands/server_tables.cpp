#include "tuner/commands/server_tables.h"

#include "engine/data_files.h"
#include "engine/facts/error.h"

namespace moetune {

std::string found_server_tables_folder() {
  std::string folder = server_tables_folder();
  if (folder.empty())
    throw InputError("server tables", "no server_flags/ in " + data_places(),
                     "MOETUNE_DATA=FOLDER, set to one that holds models/ and server_flags/, such as "
                     "share/moetune of an installation");
  return folder;
}

std::vector<ServerTable> server_tables() { return read_server_tables(found_server_tables_folder()); }

KnobNames server_knob_names() { return read_knob_names(found_server_tables_folder() + "/names.json"); }

}  // namespace moetune
