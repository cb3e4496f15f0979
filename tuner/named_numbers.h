// The kernel's files of lines "name number": /proc/meminfo, /proc/vmstat, a control group's cpu.stat and
// memory.events.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace moetune {

// "oom_kill 3" and "MemTotal: 1000 kB" alike, the last of a name that comes twice; the unit is dropped, and
// so is a line of any other form.
std::map<std::string, std::uint64_t> named_numbers(std::string_view text);

// Those of a file; none where it cannot be read.
std::map<std::string, std::uint64_t> named_numbers_in(const std::filesystem::path& file);
// One number of such a file. Empty: the file or its line is missing.
std::optional<std::uint64_t> number_named(std::string_view name, const std::filesystem::path& file);

}  // namespace moetune
