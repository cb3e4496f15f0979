// Where the time of a trial went, from what its worker said that it was doing: a trial that ran out of time
// is judged by it. Start at StageTimes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moetune {

class StageTimes {
 public:
  // From `at` on it does that. Seconds since any moment, not going back.
  void begin(std::string_view words, double at_seconds);
  // "loading (21 s), accuracy (12 s), warming up (5 s)", in the order of their beginning; stages below a
  // twentieth of the whole are left out. Empty with fewer than two stages to name: they tell nothing.
  std::string text(double now_seconds) const;

 private:
  struct Stage {
    std::string name;
    double begin_seconds;
  };
  std::vector<Stage> stages_;
};

// What progress words are about, without the count in them: "accuracy, position 17" is "accuracy", "loading,
// to score accuracy" stays.
std::string stage_of(std::string_view words);

}  // namespace moetune
