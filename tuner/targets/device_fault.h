// Faults of a GPU on purpose, in the process that asks for them: what a study must survive.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moetune {

// device_fault (a kernel reads where there is nothing), device_out_of_memory, device_hang (a wait for kernels
// that end by themselves after about a minute). Empty in a build without GPU code.
std::vector<std::string_view> device_faults();

// Does it. Throws what the engine would throw: std::bad_alloc, or std::runtime_error with the driver's words.
void fault_on_device(const std::string& how);

}  // namespace moetune
