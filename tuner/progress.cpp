#include "tuner/progress.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tuner/counted.h"
#include "tuner/printable.h"

namespace moetune {
namespace {
using namespace std::chrono_literals;
// Without a terminal a line is kept for good: often enough to see that it lives, rarely enough for a build
// log.
constexpr auto plain_line_every = 10s;
constexpr auto plain_line_at_least_every = 60s;             // also when one trial takes long
constexpr int unlimited = std::numeric_limits<int>::max();  // of columns: a file or pipe has no width
constexpr const char* erase_line = "\r\033[K";
}  // namespace

Progress::Progress(std::FILE* stream, Terminal terminal, bool quiet)
    : stream_(stream), terminal_(terminal), quiet_(quiet) {}

Progress::~Progress() { clear(); }

void Progress::show(const TuneStatus& status) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  if (terminal_.interactive) {
    const std::string line = progress_line(status, terminal_.columns - 1);  // a full last column would wrap
    if (line_is_up_ && line == last_) return;
    fmt::print(stream_, "{}{}", erase_line, line);
    line_is_up_ = true;
    last_ = line;
  } else {
    const bool is_first = last_trials_done_ < 0;
    const std::int64_t done = status.trials_done + status.final_done;
    const auto pause = done != last_trials_done_ ? plain_line_every : plain_line_at_least_every;
    if (!is_first && now - last_time_ < pause) return;
    fmt::print(stream_, "{}\n", progress_line(status, unlimited));
    last_trials_done_ = done;
    last_time_ = now;
  }
  std::fflush(stream_);
}

void Progress::message(const std::string& line) {
  clear();
  fmt::print(stream_, "{}\n", printable(line));
  std::fflush(stream_);
}

void Progress::clear() {
  if (!line_is_up_) return;
  fmt::print(stream_, "{}", erase_line);
  std::fflush(stream_);
  line_is_up_ = false;
}

std::string progress_line(const TuneStatus& status, int columns) {
  std::string line;
  if (status.final_most > 0) {
    line = fmt::format("final round, {} of at most {} turns done", status.final_done, status.final_most);
  } else {
    line = status.max_trials
               ? fmt::format("{} of {} done", status.trials_done, counted(*status.max_trials, "trial"))
               : counted(status.trials_done, "trial") + " done";
  }
  line += status.best.empty() ? " | no result yet" : " | best " + status.best;
  if (status.seconds_left) line += " | " + duration_text(*status.seconds_left) + " left";
  if (!status.doing.empty()) line += " | " + status.doing;
  return fitted(line, static_cast<std::size_t>(std::max(columns, 1)));
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::clamp(seconds, 0.0, 1e15)));
  if (whole < 100) return fmt::format("{} s", whole);
  const std::int64_t minutes = (whole + 30) / 60;
  if (minutes < 100) return fmt::format("{} min", minutes);
  return minutes % 60 == 0 ? fmt::format("{} h", minutes / 60)
                           : fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace moetune
