// Noise of real runs, replayed: recordings of `measure --samples-out` (reports/noise/) give times to configurations whose true
// times are known, in the order in which the processes were recorded, with their variance, correlation and drift. Start at
// RecordedNoise; Machine hands its processes out one after the other, as a study would start them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tuner/measurement.h"

namespace moetune {

class RecordedNoise {
 public:
  // Throws InputError for a file that is none, or holds fewer than 50 processes.
  explicit RecordedNoise(const std::string& file);
  // From times by process, in their order: for noise that was not recorded.
  explicit RecordedNoise(std::vector<std::vector<double>> processes);

  std::size_t processes() const { return factors_.size(); }
  // Times of one process's runs over the long-run time: around 1. Without those of the warm-up and of a throttled machine.
  const std::vector<double>& factors(std::size_t process) const { return factors_[process % factors_.size()]; }
  // Median of one process's.
  double level(std::size_t process) const { return levels_[process % levels_.size()]; }
  const std::vector<double>& levels() const { return levels_; }

 private:
  void make_relative();

  std::vector<std::vector<double>> factors_;
  std::vector<double> levels_;
};

// Every file of reports/noise.
std::vector<std::string> noise_files();
// "cpu-quiet" of ".../cpu-quiet.jsonl".
std::string noise_name(const std::string& file);

// A machine that has the noise of a recording. Begins at a process that depends on the seed and goes on from there; behind the
// last one the first comes again.
class Machine {
 public:
  Machine(const RecordedNoise& noise, std::uint64_t seed);

  // The next process times a configuration that takes true_ms in the long run.
  Measurement time(double true_ms);

 private:
  const RecordedNoise& noise_;
  std::size_t next_;
};

}  // namespace moetune
