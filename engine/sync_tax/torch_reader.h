// Reads what torch.profiler's export_chrome_trace() writes, plain or compressed (.gz): events of the
// categories kernel, gpu_memcpy, gpu_memset, cuda_runtime and cuda_driver, times in microseconds. An event
// whose arguments hold a "range" of range_names.h, as our own timelines write it, is what that says.
#pragma once

#include <string>
#include <string_view>

#include "engine/sync_tax/imported_trace.h"

namespace moetune {

// Throws InputError for what is no such trace, has no kernel of a GPU, or holds times that cannot be.
ImportedTrace read_torch_trace(const std::string& path);

// The same of a text; where: for messages.
ImportedTrace parse_torch_trace(std::string_view text, const std::string& where);

}  // namespace moetune
