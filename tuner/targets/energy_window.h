// Energy per output token, from a counter that moves in jumps. Start at EnergyWindow::add().
//
// A GPU's energy counter is brought up to date every 20 to 100 ms, so a difference of two readings can be off
// by what it used in that time. Here the window lasts from the first run in which the counter moved to the
// last one in which it did: then both ends are known to within one run, and the interval says what that
// leaves open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tuner/measurement.h"

namespace moetune {

class EnergyWindow {
 public:
  static constexpr int fewest_jumps = 6;  // of the counter; fewer are no measurement

  // Once before the first run with 0 tokens, then after each. joules: the counter, tokens: put out by that
  // run.
  void add(double joules, std::int64_t tokens);

  // Empty while the counter has moved too rarely: reason() says so.
  std::optional<Measurement> joules_per_token() const;
  std::string reason() const;

 private:
  // The counter, and the tokens up to the end of the run in which it got there.
  struct Mark {
    double joules = 0.0;
    std::int64_t tokens = 0;
  };
  std::optional<double> last_joules_;
  std::optional<Mark> first_;
  Mark last_;
  std::int64_t tokens_ = 0;
  std::int64_t longest_run_ = 0;  // tokens
  int jumps_ = 0;
};

}  // namespace moetune
