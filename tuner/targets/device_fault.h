// Faults of a GPU on purpose, in the process that asks for them: what a study must survive.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moetune {

// device_fault (a kernel reads where there is nothing), device_out_of_memory (more than any card has),
// device_filled (block by block until the card has no more), device_hang (a wait for kernels that end by
// themselves after about a minute), device_pinning_refused (more than any host has), device_killed_in_copy
// (SIGKILL while copies out of pinned memory are under way), and device_works: nothing fails, a copy arrives;
// what a trial behind a fault must be able to do. Empty in a build without GPU code.
std::vector<std::string_view> device_faults();

// Does it. Throws what the engine would throw: std::bad_alloc, or std::runtime_error with the driver's words.
// Only device_works returns.
void fault_on_device(const std::string& how);

}  // namespace moetune
