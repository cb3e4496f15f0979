// The host's part of BoxFacts, from /proc and /sys. Start at read_host_facts().
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tuner/doctor/box_facts.h"

namespace moetune {

// Fills memory, swap, NUMA, load and cores of the machine. root: "/" of the machine, so that tests can make
// up one. Files that are missing or unreadable leave their facts unknown. pause: waits between the two looks
// that tell how much is being swapped (null: does not look).
void read_host_facts(const std::filesystem::path& root,
                     const std::function<void(std::chrono::milliseconds)>& pause, BoxFacts& box);

// Pages that went to or came from swap since the machine started; empty: /proc/vmstat does not say.
std::optional<std::int64_t> swapped_pages(const std::filesystem::path& root);

// In MB/s; seconds above 0.
double swap_rate(std::int64_t pages, double seconds);

// "0-3,8" -> {0, 1, 2, 3, 8}; empty where it is no such list.
std::vector<int> numbers_in_list(const std::string& list);

// Of the control group's periods in which it wanted to run, the share in which it was stopped. cpu_stat: text
// of cpu.stat.
std::optional<double> throttled_share_in(const std::string& cpu_stat);

}  // namespace moetune
