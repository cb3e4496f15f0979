// What happens now, on one line that the next words replace; nothing where there is no terminal.
#pragma once

#include <string>

#include "tuner/commands/console.h"

namespace moetune {

class LiveWords {
 public:
  explicit LiveWords(const Console& console);

  void show(const std::string& words) const;
  void clear() const;

 private:
  bool is_shown_;
};

}  // namespace moetune
