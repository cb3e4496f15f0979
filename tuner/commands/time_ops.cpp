#include "tuner/commands/time_ops.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/stopwatch.h"
#include "tuner/counted.h"

namespace moetune {

std::vector<OpTiming> time_ops(OpBench& bench, const OpsToTime& what, const OpListeners& listeners) {
  std::vector<OpTiming> timings;
  const Stopwatch watch;
  std::size_t waiting = what.ops.size() * what.tokens.size();
  for (const std::string& op : what.ops)
    for (const std::int64_t tokens : what.tokens) {
      listeners.before(fmt::format("timing {}, {}", op, counted(tokens, "token")));
      const double left = what.most_seconds - watch.seconds();
      OpTiming timing;
      timing.op = op;
      timing.tokens = tokens;
      if (left > 0.0 || timings.empty())
        timing = bench.time(op, tokens, what.runs, std::max(0.0, left) / static_cast<double>(waiting));
      --waiting;
      listeners.after();
      timings.push_back(std::move(timing));
    }
  return timings;
}

}  // namespace moetune
