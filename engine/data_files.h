// Where the program's own data lies: models, search spaces, profiles, what servers accept. Start at
// model_directory(). Looked for in this order: $MOETUNE_DATA; share/moetune beside the folder of the program
// (an installed or bundled one); the source tree above the program (a build in build/<preset>).
#pragma once

#include <string>
#include <vector>

namespace moetune {

// Folders; "" when there is no such data here. Throws InputError when MOETUNE_DATA is set to what is no data
// folder.
std::string models_folder();
std::string presets_folder();
std::string search_spaces_folder();
std::string profiles_folder();
std::string server_tables_folder();  // tuner/export/flags of the source tree, server_flags of an installation
std::string claims_file();           // reports/claims.json of the source tree

// Where the above are looked for, in words, for whoever misses some of it.
std::string data_places();

// Names of the models that come with the program, sorted.
std::vector<std::string> model_names();

// The checkpoint directory that --model means: an existing directory, else a model that comes with the
// program. Throws InputError naming what is accepted.
std::string model_directory(const std::string& directory_or_name);

}  // namespace moetune
