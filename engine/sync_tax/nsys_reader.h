// Reads what `nsys export --type sqlite` writes (tables CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _RUNTIME,
// _SYNCHRONIZATION and StringIds, as the Nsight Systems user guide names them).
#pragma once

#include <string>

#include "engine/sync_tax/imported_trace.h"

namespace moetune {

// Throws InputError for a file that is no SQLite database, has no kernel table, or holds times that cannot
// be.
ImportedTrace read_nsys_export(const std::string& path);

}  // namespace moetune
