// Reads what `nsys export --type sqlite` writes (tables CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET,
// _RUNTIME, StringIds and, where NVTX ranges of ours are in it, NVTX_EVENTS and CUDA_GRAPH_NODE_EVENTS, as
// the Nsight Systems user guide names them).
#pragma once

#include <string>

#include "engine/sync_tax/imported_trace.h"

namespace moetune {

// Throws InputError for a file that is no SQLite database, has no kernel table, or holds times that cannot
// be.
ImportedTrace read_nsys_export(const std::string& path);

}  // namespace moetune
