#include "engine/sync_tax/timeline.h"

#include <array>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace moetune {
namespace {

constexpr int step_track = 0;
constexpr std::array<std::string_view, kActivities + 1> tracks = {"steps", "compute", "collectives",
                                                                  "expert copies", "host"};

double microseconds(std::int64_t ns) { return static_cast<double>(ns) / 1e3; }

std::string event(std::string_view name, std::string_view category, int track, std::int64_t from_ns,
                  std::int64_t to_ns, const std::string& arguments) {
  return fmt::format(
      R"({{"name":"{}","cat":"{}","ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})", name,
      category, track, microseconds(from_ns), microseconds(to_ns - from_ns), arguments);
}

std::string name_of_track(int track, std::string_view what, const std::string& name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":1,"tid":{},"args":{{"name":{}}}}})", what, track,
                     nlohmann::json(name).dump());
}

}  // namespace

std::string timeline_of(std::span<const RecordedStep> steps, std::span<const StepInterval> intervals,
                        const std::string& title) {
  std::string text =
      "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + name_of_track(step_track, "process_name", title);
  for (std::size_t track = 0; track < tracks.size(); ++track)
    text += ",\n" + name_of_track(static_cast<int>(track), "thread_name", std::string(tracks[track]));
  const std::int64_t origin_ns = steps.empty() ? 0 : steps.front().begin_ns;
  for (const RecordedStep& step : steps) {
    const std::string_view phase = step.phase == Phase::prefill ? "prefill" : "decode";
    text += ",\n" + event(phase, "step", step_track, step.begin_ns - origin_ns, step.end_ns - origin_ns,
                          fmt::format(R"("tokens":{})", step.tokens));
    for (const StepInterval& interval : intervals.subspan(step.first, step.count)) {
      const auto part = static_cast<std::size_t>(part_of(interval.activity, interval.row));
      const std::string_view name = interval.activity == Activity::compute
                                        ? kRowNames[static_cast<std::size_t>(interval.row)]
                                        : kPartNames[part];
      text += ",\n" + event(name, kPartNames[part], 1 + static_cast<int>(interval.activity),
                            interval.begin_ns - origin_ns, interval.end_ns - origin_ns,
                            fmt::format(R"("layer":{})", interval.layer));
    }
  }
  return text + "\n]}\n";
}

}  // namespace moetune
