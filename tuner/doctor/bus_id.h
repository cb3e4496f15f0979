// The PCI address of a GPU is written in more than one way: NVML gives eight digits of the domain, sysfs
// four, and either may come in upper case.
#pragma once

#include <string>

namespace moetune {

// As sysfs has it: "00000000:0A:00.0" -> "0000:0a:00.0". Addresses of one device become the same text.
std::string short_bus_id(std::string bus_id);

}  // namespace moetune
