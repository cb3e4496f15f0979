// Progress words now and then: whoever reads them wakes up for each, perhaps on a core that is being
// measured.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace moetune {

class OccasionalWords {
 public:
  using Say = std::function<void(const std::string& words)>;
  explicit OccasionalWords(Say say) : say_(std::move(say)) {}

  // make_words is only called when it is time; the first time always is.
  template <class MakeWords>
  void operator()(const MakeWords& make_words) {
    const Clock::time_point now = Clock::now();
    if (!say_ || (said_ && now - last_ < interval)) return;
    said_ = true;
    last_ = now;
    say_(make_words());
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds interval{500};

  Say say_;
  bool said_ = false;
  Clock::time_point last_;
};

}  // namespace moetune
