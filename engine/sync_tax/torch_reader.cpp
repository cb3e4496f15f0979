#include "engine/sync_tax/torch_reader.h"

#include <zlib.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "engine/sync_tax/range_names.h"

namespace moetune {
namespace {

using nlohmann::json;

constexpr auto accepted = "a trace of torch.profiler (export_chrome_trace), plain or .gz";
constexpr std::size_t most_bytes = std::size_t{2} << 30;  // unpacked
constexpr int deepest = 64;
constexpr double latest_us = 1e-3 * static_cast<double>(kLatestNs);

std::string text_of_file(const std::string& path) {
  // Reads what is not compressed as it is.
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw InputError(path, "cannot be read", accepted);
  std::string text;
  std::array<char, 1 << 16> piece{};
  int count = 0;
  while ((count = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()))) > 0) {
    if (text.size() + static_cast<std::size_t>(count) > most_bytes)
      throw InputError(path, fmt::format("more than {} bytes", most_bytes), "a shorter recording");
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  int problem = Z_OK;
  const char* const words = gzerror(file.get(), &problem);
  if (count < 0 || problem != Z_OK)
    throw InputError(path, fmt::format("cannot be unpacked: {}", words), accepted);
  return text;
}

// Numbers stand as numbers or, for pid and tid of some tracks, as texts: those have no time on a device.
std::optional<std::int64_t> whole(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

class Events {
 public:
  explicit Events(std::string where) : where_(std::move(where)) {}

  void take(const json& event) {
    ++number_;
    const std::string category = text(event, "cat");
    const bool is_kernel = category == "kernel";
    const bool is_copy = category == "gpu_memcpy";
    const bool is_fill = category == "gpu_memset";
    const bool is_call = category == "cuda_runtime" || category == "cuda_driver";
    if (text(event, "ph") != "X" || !(is_kernel || is_copy || is_fill || is_call)) return;
    const double begin_us = time(event, "ts");
    const double length_us = time(event, "dur");
    const auto begin_ns = static_cast<std::int64_t>(std::llround(1e3 * begin_us));
    const auto end_ns = begin_ns + static_cast<std::int64_t>(std::llround(1e3 * length_us));
    const std::string name = text(event, "name");
    const json none = json::object();
    const json& arguments = event.contains("args") && event["args"].is_object() ? event["args"] : none;
    // Of one trace all events are one process's, under the number of the host's or of the device's track.
    constexpr std::int64_t process = 0;
    if (is_call) return builder_.host_call(process, whole(event, "tid").value_or(0), name, begin_ns, end_ns);
    const std::int64_t device = whole(arguments, "device").value_or(0);
    const std::int64_t stream = whole(arguments, "stream").value_or(StreamOrder::kUnknown);
    const auto told = class_of_range(text(arguments, "range"));
    if (is_kernel) return builder_.kernel(device, process, name, begin_ns, end_ns, stream, told);
    if (is_fill) return builder_.fill(device, process, begin_ns, end_ns, stream, told);
    if (const auto kind = copy_kind(name))
      builder_.copy(device, process, *kind, whole(arguments, "bytes").value_or(0), begin_ns, end_ns, stream,
                    told);
  }

  ImportedTrace finish() {
    ImportedTrace trace = builder_.finish();
    if (trace.kernels == 0)
      throw InputError(where_, "no kernel of a GPU", "a trace with ProfilerActivity.CUDA");
    return trace;
  }

 private:
  static std::string text(const json& event, const char* field) {
    const auto found = event.find(field);
    return found != event.end() && found->is_string() ? found->get<std::string>() : "";
  }
  double time(const json& event, const char* field) const {
    const auto found = event.find(field);
    const bool is_number = found != event.end() && found->is_number();
    const double value = is_number ? found->get<double>() : -1.0;
    if (!std::isfinite(value) || value < 0.0 || value > latest_us / 2)
      throw InputError(fmt::format("{}: event {}: {}", where_, number_, field),
                       found == event.end() ? "missing" : found->dump().substr(0, 60),
                       "microseconds, not below 0");
    return value;
  }
  // "Memcpy HtoD (Pinned -> Device)"
  static std::optional<CopyKind> copy_kind(const std::string& name) {
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (has("HtoD")) return CopyKind::to_device;
    if (has("DtoH")) return CopyKind::to_host;
    if (has("PtoP")) return CopyKind::between_devices;
    if (has("DtoD")) return CopyKind::within_device;
    return std::nullopt;
  }

  std::string where_;
  TraceBuilder builder_;
  std::int64_t number_ = 0;
};

}  // namespace

ImportedTrace parse_torch_trace(std::string_view text, const std::string& where) {
  Events events(where);
  bool in_events = false;
  bool has_events = false;
  // Every event is taken and dropped as soon as it is read: traces are larger than memory would like.
  const json::parser_callback_t look = [&](int depth, json::parse_event_t what, json& value) {
    if (depth > deepest) throw InputError(where, fmt::format("nested deeper than {}", deepest), accepted);
    if (depth == 0 && what == json::parse_event_t::array_start) in_events = has_events = true;
    if (depth == 1 && what == json::parse_event_t::key) {
      in_events = value == "traceEvents";
      has_events = has_events || in_events;
    }
    const bool is_event = what == json::parse_event_t::object_end && in_events && (depth == 2 || depth == 1);
    if (!is_event) return true;
    events.take(value);
    return false;
  };
  try {
    [[maybe_unused]] const json rest = json::parse(text, look);
  } catch (const json::parse_error& error) {
    throw InputError(where, fmt::format("no JSON at byte {}", error.byte), accepted);
  } catch (const json::out_of_range&) {  // what the library says of 1e400
    throw InputError(where, "a number beyond what a double holds", accepted);
  }
  if (!has_events) throw InputError(where, "no traceEvents", accepted);
  return events.finish();
}

ImportedTrace read_torch_trace(const std::string& path) {
  return parse_torch_trace(text_of_file(path), path);
}

}  // namespace moetune
