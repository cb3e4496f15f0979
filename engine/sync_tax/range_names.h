// What the parts of a model are called in recordings: the NVTX ranges that profilers show, and the events of
// our own timelines. One vocabulary, so that what one of them wrote can be imported without guessing by
// kernels' names.
#pragma once

#include <optional>
#include <string_view>

#include "engine/sync_tax/interval.h"
#include "engine/sync_tax/kernel_names.h"

namespace moetune {

// "moetune: router", "moetune: gate_up", ...; of what is no compute by its part. Ends with a zero, as C wants
// it.
std::string_view range_name(Activity activity, Row row);

// Of a text that range_name() gives; empty: somebody else's range.
std::optional<KernelClass> class_of_range(std::string_view text);

}  // namespace moetune
