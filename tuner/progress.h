// One live line on a terminal; now and then a plain line where there is none; nothing when quiet. Messages go
// above it. Everything is written to one stream (stderr). Start at Progress::show().
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "tuner/terminal.h"
#include "tuner/tune.h"

namespace moetune {

class Progress {
 public:
  Progress(std::FILE* stream, Terminal terminal, bool quiet);
  ~Progress();  // clears the live line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const TuneStatus& status);
  void message(const std::string& line);  // shown even when quiet: warnings, worker output
  void clear();                           // before somebody else writes

 private:
  std::FILE* stream_;
  Terminal terminal_;
  bool quiet_;
  bool line_is_up_ = false;
  std::string last_;
  std::int64_t last_trials_done_ = -1;
  std::chrono::steady_clock::time_point last_time_;
};

// "12 of 240 trials done | best 3.21 tpot_ms (trial 7) | 4 min left | measuring 12/40", cut to the columns.
std::string progress_line(const TuneStatus& status, int columns);

// "45 s", "4 min", "1 h 20 min"
std::string duration_text(double seconds);

}  // namespace moetune
