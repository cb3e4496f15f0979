// Who else uses the processors while we measure? From /proc: what all cores did, less what this process and
// its descendants did, is the work of others, whoever owns it. Start at CpuWatch.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

struct ProcessUse {
  pid_t id = 0;
  pid_t parent = 0;
  std::string name;         // of its program, as the kernel cuts it; any bytes
  std::uint64_t ticks = 0;  // of processor time, its own
  std::uint64_t ended_children_ticks = 0;
};

// A line of /proc/<pid>/stat; empty: it is none.
std::optional<ProcessUse> process_use_from_stat(std::string_view text);
// Of a running process, from the kernel's files in proc; empty: it has ended, or cannot be seen from here.
std::optional<ProcessUse> process_use_of(pid_t id, const std::string& proc = "/proc");

struct CpuSnapshot {
  std::uint64_t ticks = 0;            // since boot, over all cores: clock ticks that went by
  std::uint64_t busy_ticks = 0;       // of them: anything but idle and waiting for disks
  int cores = 0;                      // of the machine
  std::vector<ProcessUse> processes;  // that can be seen from here
};

// proc: where the kernel's files lie. Empty: they cannot be read there.
std::optional<CpuSnapshot> look_at_cpus(const std::string& proc = "/proc");

// Adds up over the snapshots it is given. Processes that live between two snapshots only are counted, but not
// named.
class CpuWatch {
 public:
  // self: whose descendants are ours too. threads: how many cores our own work needs.
  CpuWatch(pid_t self, int threads);
  void add(const CpuSnapshot& snapshot);

  // Cores that others kept busy, on average from the first to the last snapshot.
  double other_cores() const;
  // Those that left less than nine tenths of the cores that our threads need, the busiest first:
  // "cc1plus (process 4711, 0.93 cores)". Empty: they left enough.
  std::vector<std::string> disturbances() const;

 private:
  struct Other {
    std::string name;
    std::uint64_t ticks = 0;
  };
  pid_t self_;
  int threads_;
  std::optional<CpuSnapshot> last_;
  std::uint64_t ticks_ = 0;
  std::uint64_t other_ticks_ = 0;
  std::map<pid_t, Other> others_;
  int cores_ = 0;
};

}  // namespace moetune
