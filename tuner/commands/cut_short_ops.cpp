#include "tuner/commands/cut_short_ops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tuner/counted.h"

namespace moetune {
namespace {

std::string place_of(const OpTiming& timing) {
  return fmt::format("{} at {}", timing.op, counted(timing.tokens, "token"));
}

}  // namespace

void CutShortOps::add(const OpTiming& timing, int runs) {
  const std::size_t n = timing.microseconds.size();
  if (n == 0 && untimed_.empty())
    first_untimed_ = fmt::format("one run of {} takes {:.3g} s", place_of(timing), timing.first_seconds);
  if (n == 0)
    untimed_.push_back(place_of(timing));
  else if (n < static_cast<std::size_t>(runs))
    fewer_runs_.push_back(fmt::format("{} {}", place_of(timing), counted(n, "time")));
}

std::vector<std::string> CutShortOps::notes(int runs, double budget_seconds) const {
  std::vector<std::string> notes;
  if (!fewer_runs_.empty())
    notes.push_back(fmt::format(
        "Timed fewer times than --runs {}, as --budget of {:g} s was spent: {}. Below 6 times there "
        "is no interval.",
        runs, budget_seconds, fmt::join(fewer_runs_, ", ")));
  if (!untimed_.empty())
    notes.push_back(fmt::format(
        "Not timed, as --budget of {:g} s does not reach: {}. A larger one helps, or fewer --tokens.",
        budget_seconds, fmt::join(untimed_, ", ")));
  return notes;
}

}  // namespace moetune
