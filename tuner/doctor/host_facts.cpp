#include "tuner/doctor/host_facts.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "tuner/named_numbers.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds look(200);
constexpr std::int64_t most_numbers = 1 << 16;

std::optional<std::string> text_of(const fs::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void read_memory(const fs::path& root, BoxFacts& box) {
  const auto text = text_of(root / "proc/meminfo");
  if (!text) return;
  const auto numbers = named_numbers(*text);
  const auto bytes = [&](const char* name) -> std::optional<std::int64_t> {
    const auto found = numbers.find(name);
    if (found == numbers.end()) return std::nullopt;
    return static_cast<std::int64_t>(found->second * 1024);
  };
  box.host_bytes = bytes("MemTotal").value_or(0);
  box.available_bytes = bytes("MemAvailable");
  box.swap_bytes = bytes("SwapTotal");
  if (const auto unused = bytes("SwapFree"); unused && box.swap_bytes)
    box.swap_used_bytes = *box.swap_bytes - *unused;
}

void read_nodes(const fs::path& root, BoxFacts& box) {
  std::vector<int> allowed;
  if (const auto status = text_of(root / "proc/self/status")) {
    std::istringstream lines(*status);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("Cpus_allowed_list:"))
        allowed = numbers_in_list(line.substr(line.find_first_not_of(" \t", line.find(':') + 1)));
  }
  std::error_code unreadable;
  int nodes = 0;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(root / "sys/devices/system/node", unreadable)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("node")) continue;
    int number = 0;
    if (std::from_chars(name.data() + 4, name.data() + name.size(), number).ec != std::errc()) continue;
    ++nodes;
    const std::vector<int> cores = numbers_in_list(text_of(entry.path() / "cpulist").value_or(""));
    if (std::ranges::any_of(cores,
                            [&](int core) { return std::ranges::find(allowed, core) != allowed.end(); }))
      box.our_numa_nodes.push_back(number);
  }
  std::ranges::sort(box.our_numa_nodes);
  if (nodes > 0) box.numa_nodes = nodes;
  if (const auto present = text_of(root / "sys/devices/system/cpu/online"))
    box.machine_cores = static_cast<int>(numbers_in_list(*present).size());
}

}  // namespace

std::optional<std::int64_t> swapped_pages(const fs::path& root) {
  const auto text = text_of(root / "proc/vmstat");
  if (!text) return std::nullopt;
  const auto numbers = named_numbers(*text);
  if (!numbers.contains("pswpin") || !numbers.contains("pswpout")) return std::nullopt;
  return static_cast<std::int64_t>(numbers.at("pswpin") + numbers.at("pswpout"));
}

double swap_rate(std::int64_t pages, double seconds) {
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6 / seconds;
}

std::vector<int> numbers_in_list(const std::string& list) {
  std::vector<int> numbers;
  std::istringstream parts(list.substr(0, list.find('\n')));
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), first);
    if (problem != std::errc() || first < 0) return {};
    int last = first;
    const char* const stop = part.data() + part.size();
    if (end != stop && (*end != '-' || end + 1 == stop || std::from_chars(end + 1, stop, last).ptr != stop))
      return {};
    if (last < first || last - first >= most_numbers) return {};
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

std::optional<double> throttled_share_in(const std::string& cpu_stat) {
  const auto numbers = named_numbers(cpu_stat);
  if (!numbers.contains("nr_periods") || !numbers.contains("nr_throttled") || numbers.at("nr_periods") == 0)
    return std::nullopt;
  return static_cast<double>(numbers.at("nr_throttled")) / static_cast<double>(numbers.at("nr_periods"));
}

void read_host_facts(const fs::path& root, const std::function<void(std::chrono::milliseconds)>& pause,
                     BoxFacts& box) {
  read_memory(root, box);
  read_nodes(root, box);
  if (const auto text = text_of(root / "proc/loadavg")) {
    std::istringstream words(*text);
    if (double load = 0.0; words >> load) box.load = load;
  }
  for (const char* file : {"sys/fs/cgroup/cpu.stat", "sys/fs/cgroup/cpu/cpu.stat"})
    if (const auto text = text_of(root / file); text && !box.throttled_share)
      box.throttled_share = throttled_share_in(*text);
  const std::optional<std::int64_t> before = swapped_pages(root);
  if (!pause || !before) return;
  pause(look);
  if (const auto after = swapped_pages(root))
    box.swapping_mb_per_s = swap_rate(*after - *before, std::chrono::duration<double>(look).count());
}

}  // namespace moetune
