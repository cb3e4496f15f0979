#include "tuner/doctor/bus_id.h"

#include <algorithm>
#include <cctype>

namespace moetune {

std::string short_bus_id(std::string bus_id) {
  constexpr std::size_t length = 12;  // "0000:0a:00.0"
  if (bus_id.size() > length) bus_id.erase(0, bus_id.size() - length);
  std::ranges::transform(bus_id, bus_id.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return bus_id;
}

}  // namespace moetune
