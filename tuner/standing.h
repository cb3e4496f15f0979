// Where a tuning run stands, counted from what it logs, and what is shown of it. Start at Standing::show().
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "tuner/final_round.h"
#include "tuner/tune.h"

namespace moetune {

class Standing {
 public:
  explicit Standing(const TuneRequest& request);

  double search_seconds() const { return search_seconds_; }
  double measuring_seconds() const { return search_seconds_ + final_seconds_; }

  void begin_trial(std::int64_t number);
  void end_trial(const Trial& trial);

  void begin_final_round(std::int64_t finalists, const FinalLimits& limits);
  // A turn that the log holds, of this round or of an older one that its search has outgrown.
  void add_turn(const Trial& trial, bool is_of_this_round);
  void improve_best(const FinalRound& round);

  void doing(const std::string& words);
  void show();

 private:
  std::optional<double> search_seconds_left() const;
  std::optional<double> final_seconds_left() const;
  void improve_best(const Trial& trial);

  const TuneRequest& request_;
  TuneStatus status_;
  double search_seconds_ = 0.0;
  double final_seconds_ = 0.0;  // of all final rounds
  double round_seconds_ = 0.0;  // of this one
  std::int64_t fewest_turns_ = 0;
  std::optional<double> round_limit_seconds_;
  std::int64_t measured_ = 0;
  std::optional<double> best_;
  std::chrono::steady_clock::time_point trial_began_;
  bool is_running_ = false;
};

}  // namespace moetune
