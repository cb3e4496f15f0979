#include "tuner/other_work.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "tuner/printable.h"

namespace moetune {
namespace {
namespace fs = std::filesystem;

constexpr double share_needed = 0.9;   // of the cores of our threads
constexpr double worth_naming = 0.05;  // cores
constexpr std::size_t most_named = 3;

std::string contents_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::optional<pid_t> process_id(const std::string& text) {
  pid_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id <= 0) return std::nullopt;
  return id;
}

// Of self and everything it started, as far as the snapshot shows it.
std::set<pid_t> family_of(const CpuSnapshot& snapshot, pid_t self) {
  std::set<pid_t> family{self};
  for (bool grew = true; grew;) {
    grew = false;
    for (const ProcessUse& process : snapshot.processes)
      if (family.contains(process.parent) && family.insert(process.id).second) grew = true;
  }
  return family;
}

// A child that ended between two snapshots stands in its parent's account.
std::uint64_t ticks_of(const CpuSnapshot& snapshot, const std::set<pid_t>& family) {
  std::uint64_t ticks = 0;
  for (const ProcessUse& process : snapshot.processes)
    if (family.contains(process.id)) ticks += process.ticks + process.ended_children_ticks;
  return ticks;
}

std::uint64_t grown(std::uint64_t before, std::uint64_t after) { return after > before ? after - before : 0; }

}  // namespace

std::optional<ProcessUse> process_use_from_stat(std::string_view text) {
  // "4711 (name) S 1 ...": the name may hold blanks and brackets, so the last one ends it.
  const std::size_t open = text.find(" (");
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open + 2)
    return std::nullopt;
  const std::optional<pid_t> id = process_id(std::string(text.substr(0, open)));
  if (!id) return std::nullopt;
  ProcessUse process{.id = *id,
                     .parent = 0,
                     .name = std::string(text.substr(open + 2, close - open - 2)),
                     .ticks = 0,
                     .ended_children_ticks = 0};
  std::istringstream rest{std::string(text.substr(close + 1))};
  std::string ignored;
  rest >> ignored >> process.parent;                          // state, parent
  for (int field = 5; field <= 13; ++field) rest >> ignored;  // proc(5) counts from 1
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  std::uint64_t children_user = 0;
  std::uint64_t children_system = 0;
  rest >> user >> system >> children_user >> children_system;
  if (!rest) return std::nullopt;
  process.ticks = user + system;
  process.ended_children_ticks = children_user + children_system;
  return process;
}

std::optional<ProcessUse> process_use_of(pid_t id, const std::string& proc) {
  return process_use_from_stat(contents_of(fmt::format("{}/{}/stat", proc, id)));
}

std::optional<CpuSnapshot> look_at_cpus(const std::string& proc) {
  CpuSnapshot snapshot;
  std::ifstream stat(proc + "/stat");
  for (std::string line; std::getline(stat, line) && line.starts_with("cpu");) {
    if (!line.starts_with("cpu ")) {
      ++snapshot.cores;
      continue;
    }
    // user nice system idle iowait irq softirq steal; guests are part of user.
    std::istringstream fields(line.substr(4));
    std::uint64_t ticks = 0;
    for (int field = 0; field < 8 && fields >> ticks; ++field) {
      snapshot.ticks += ticks;
      if (field != 3 && field != 4) snapshot.busy_ticks += ticks;
    }
  }
  if (snapshot.cores == 0 || snapshot.ticks == 0) return std::nullopt;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(proc, failed)) {
    const std::optional<pid_t> id = process_id(entry.path().filename().string());
    if (!id) continue;
    // One that ends meanwhile has no line any more.
    if (auto process = process_use_of(*id, proc)) snapshot.processes.push_back(*process);
  }
  return snapshot;
}

CpuWatch::CpuWatch(pid_t self, int threads) : self_(self), threads_(threads) {}

void CpuWatch::add(const CpuSnapshot& snapshot) {
  cores_ = snapshot.cores;
  const std::set<pid_t> family = family_of(snapshot, self_);
  if (last_) {
    ticks_ += grown(last_->ticks, snapshot.ticks);
    const std::uint64_t own = grown(ticks_of(*last_, family_of(*last_, self_)), ticks_of(snapshot, family));
    other_ticks_ += grown(own, grown(last_->busy_ticks, snapshot.busy_ticks));
    for (const ProcessUse& process : snapshot.processes) {
      if (family.contains(process.id)) continue;
      const auto before = std::ranges::find(last_->processes, process.id, &ProcessUse::id);
      Other& other = others_[process.id];
      other.name = process.name;
      // One that is new began after the last look, or took over a number: all of its time is since then.
      const bool is_same = before != last_->processes.end() && before->ticks <= process.ticks;
      other.ticks += is_same ? process.ticks - before->ticks : process.ticks;
    }
  }
  last_ = snapshot;
}

double CpuWatch::other_cores() const {
  return ticks_ == 0 ? 0.0 : static_cast<double>(other_ticks_) / static_cast<double>(ticks_) * cores_;
}

std::vector<std::string> CpuWatch::disturbances() const {
  const double left = cores_ - other_cores();
  if (ticks_ == 0 || left >= share_needed * std::min(threads_, cores_)) return {};
  std::vector<std::pair<double, std::string>> named;
  double unnamed = other_cores();
  for (const auto& [id, other] : others_) {
    const double cores = static_cast<double>(other.ticks) / static_cast<double>(ticks_) * cores_;
    if (cores < worth_naming) continue;
    named.emplace_back(cores, fmt::format("{} (process {}, {:.2f} cores)", printable(other.name), id, cores));
  }
  std::ranges::sort(named, std::ranges::greater{}, [](const auto& each) { return each.first; });
  if (named.size() > most_named) named.resize(most_named);
  std::vector<std::string> texts;
  for (const auto& [cores, text] : named) {
    texts.push_back(text);
    unnamed -= cores;
  }
  if (unnamed >= worth_naming)
    texts.push_back(
        fmt::format("processes that were short, small or cannot be seen from here ({:.2f} cores)", unnamed));
  return texts;
}

}  // namespace moetune
