#include "tuner/commands/live_words.h"

#include <cstdio>

#include <fmt/core.h>

#include "tuner/printable.h"
#include "tuner/terminal.h"

namespace moetune {

LiveWords::LiveWords(const Console& console) : is_shown_(terminal_of(2).interactive && !console.quiet) {}

void LiveWords::show(const std::string& words) const {
  if (is_shown_) fmt::print(stderr, "\r\033[K{}", fitted(words, 79));
}

void LiveWords::clear() const {
  if (is_shown_) fmt::print(stderr, "\r\033[K");
}

}  // namespace moetune
