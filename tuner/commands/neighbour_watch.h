// Who else works on this machine while a study measures. Start at NeighbourWatch.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuner/commands/study.h"
#include "tuner/doctor/box_facts.h"
#include "tuner/other_work.h"

namespace moetune {

// From its making on. Of made-up numbers it says nothing: they depend on nothing that the machine does.
class NeighbourWatch {
 public:
  explicit NeighbourWatch(const Study& study);

  // What makes every time measured from now on worthless, in doctor's words: work of others on the GPU,
  // clocks held down, swapping.
  std::vector<std::string> what_spoils() const;
  // To be called now and then while measuring; looks every two seconds, as it reads a file of every process.
  void look();

  // By name; empty: nobody to speak of. The second one only while no worker of ours is there: inside a
  // container processes have other numbers than NVML knows, so ours could not be told from theirs.
  std::vector<std::string> on_processors();
  std::vector<std::string> newcomers_on_gpu() const;
  // What spoils measurements and was not so when this began, in doctor's words: an idle neighbour of the GPU
  // that went to work, clocks that are held down, swapping on average since then. While no worker of ours is
  // there.
  std::vector<std::string> arisen_since() const;

 private:
  void look_now();

  bool is_made_up_;
  bool runs_on_gpu_;
  std::string gpu_bus_id_;
  BoxFacts before_;
  std::optional<std::int64_t> swapped_pages_before_;
  std::chrono::steady_clock::time_point begin_;
  CpuWatch cpus_;
  std::chrono::steady_clock::time_point last_look_;
};

// Processes on that GPU after a measurement that were not there before it, by name. Those that sit there all
// the time are doctor's to judge.
std::vector<std::string> newcomers(const BoxFacts& before, const BoxFacts& after, const std::string& bus_id);

// Findings that spoil measurements after one and did not before it: doctor's words for them, but for work on
// a GPU where newcomers() names who does it.
std::vector<std::string> arisen(const BoxFacts& before, const BoxFacts& after, bool runs_on_gpu,
                                bool newcomers_are_named);

}  // namespace moetune
