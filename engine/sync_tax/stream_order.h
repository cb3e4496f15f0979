// Kernels of one stream run one after the other, but their blocks may be given places before the kernel in
// front has ended (programmatic dependent launch), and then they wait. A profiler counts from where they got
// their places.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace moetune {

class StreamOrder {
 public:
  static constexpr std::int64_t kUnknown = -1;  // stream of a record that does not say: it is left as it is

  // When what is in front of it has ended; of the first, when it begins.
  std::int64_t free_at(std::int64_t stream, std::int64_t begin_ns) const {
    const auto known = free_ns_.find(stream);
    return stream == kUnknown || known == free_ns_.end() ? begin_ns : known->second;
  }

  // When it really began. To be asked in the order of begins.
  std::int64_t begin_of(std::int64_t stream, std::int64_t begin_ns, std::int64_t end_ns) {
    if (stream == kUnknown) return begin_ns;
    std::int64_t& free_ns = free_ns_.try_emplace(stream, begin_ns).first->second;
    const std::int64_t really_ns = std::min(end_ns, std::max(begin_ns, free_ns));
    free_ns = std::max(free_ns, end_ns);
    return really_ns;
  }

 private:
  std::map<std::int64_t, std::int64_t> free_ns_;
};

}  // namespace moetune
