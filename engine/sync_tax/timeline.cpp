#include "engine/sync_tax/timeline.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/sync_tax/device_label.h"
#include "engine/sync_tax/range_names.h"

namespace moetune {
namespace {

constexpr int step_track = 0;
constexpr std::array<std::string_view, kActivities + 1> tracks = {
    "steps", "compute", "collectives", "expert copies", "recording", "host", "nothing"};

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

// Names of C++ as people write them.
std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? text.get() : name;
}

// A branch of a graph has a track of its own, as a stream would.
std::int64_t stream_of(const DeviceRecord& record) {
  constexpr std::int64_t beside = 1'000'000;
  const bool is_beside = record.label != 0 && DeviceLabel::unpacked(record.label).mark == Mark::beside;
  return record.stream + (is_beside ? beside : 0);
}

std::string_view range_of(const DeviceRecord& record) {
  const DeviceLabel label = record.label == 0 ? DeviceLabel{} : DeviceLabel::unpacked(record.label);
  return range_name(label.activity, label.row);
}

// As torch.profiler names and places them: device 0 on process 0 with a track per stream, calls on process 2.
std::string device_event(const DeviceRecord& record, std::int64_t origin_ns) {
  using Kind = DeviceRecord::Kind;
  const auto [category, name] = [&]() -> std::pair<std::string_view, std::string> {
    switch (record.kind) {
      case Kind::kernel:
        return {"kernel", demangled(record.name)};
      case Kind::copy_to_device:
        return {"gpu_memcpy", "Memcpy HtoD"};
      case Kind::copy_to_host:
        return {"gpu_memcpy", "Memcpy DtoH"};
      case Kind::copy_on_device:
        return {"gpu_memcpy", "Memcpy DtoD"};
      case Kind::fill:
        return {"gpu_memset", "Memset"};
      case Kind::host_call:
        break;
    }
    return {"cuda_runtime", record.name};
  }();
  const bool is_call = record.kind == Kind::host_call;
  const std::string arguments = is_call ? std::string()
                                        : fmt::format(R"("device":0,"stream":{},"bytes":{},"range":"{}")",
                                                      stream_of(record), record.bytes, range_of(record));
  return fmt::format(
      R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
      nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), category,
      is_call ? 2 : 0, is_call ? record.stream : stream_of(record), microseconds(record.begin_ns - origin_ns),
      microseconds(record.end_ns - record.begin_ns), arguments);
}

}  // namespace

std::string timeline_of(std::span<const RecordedStep> steps, std::span<const StepInterval> intervals,
                        const std::string& title, std::span<const DeviceRecord> records) {
  std::string text =
      "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + name_of_track(step_track, "process_name", title);
  for (std::size_t track = 0; track < tracks.size(); ++track)
    text += ",\n" + name_of_track(static_cast<int>(track), "thread_name", std::string(tracks[track]));
  // What the device did may begin before the first step: an importer takes no time below 0.
  std::int64_t origin_ns = !steps.empty()     ? steps.front().begin_ns
                           : !records.empty() ? records.front().begin_ns
                                              : 0;
  for (const DeviceRecord& record : records) origin_ns = std::min(origin_ns, record.begin_ns);
  for (const RecordedStep& step : steps) {
    const std::string_view phase = step.phase == Phase::prefill ? "prefill" : "decode";
    text += ",\n" + event(phase, "step", step_track, step.begin_ns - origin_ns, step.end_ns - origin_ns,
                          fmt::format(R"("tokens":{})", step.tokens));
    for (const StepInterval& interval : intervals.subspan(step.first, step.count)) {
      const std::string_view part =
          interval.activity == Activity::recording
              ? "recording"
              : kPartNames[static_cast<std::size_t>(part_of(interval.activity, interval.row))];
      const std::string_view name =
          interval.activity == Activity::compute ? kRowNames[static_cast<std::size_t>(interval.row)] : part;
      text +=
          ",\n" + event(name, part, 1 + static_cast<int>(interval.activity), interval.begin_ns - origin_ns,
                        interval.end_ns - origin_ns, fmt::format(R"("layer":{})", interval.layer));
    }
  }
  for (const DeviceRecord& record : records) text += ",\n" + device_event(record, origin_ns);
  return text + "\n]}\n";
}

}  // namespace moetune
