#include "tuner/sample_series.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"

namespace moetune {
namespace {
using nlohmann::json;

double rounded(double milliseconds) { return std::round(1e4 * milliseconds) / 1e4; }

double time_field(const JsonFields& fields, const char* name) {
  const double value = fields.number(name);
  if (value < 0.0) throw InputError(fields.place(name), shown(value), "0 or more");
  return value;
}

SampleRun run_from(const JsonFields& fields) {
  fields.only({"at_s", "ttft_ms", "tpot_ms", "token_ms", "warm_up", "throttled"});
  SampleRun run;
  run.at_s = time_field(fields, "at_s");
  run.ttft_ms = time_field(fields, "ttft_ms");
  run.tpot_ms = time_field(fields, "tpot_ms");
  run.is_warm_up = fields.has("warm_up") && fields.flag("warm_up");
  run.is_throttled = fields.has("throttled") && fields.flag("throttled");
  if (!fields.has("token_ms")) return run;
  for (const json& value : fields.array("token_ms")) {
    if (!value.is_number() || value < 0.0) throw InputError(fields.place("token_ms"), shown(value), "milliseconds, 0 or more");
    run.token_ms.push_back(value.get<double>());
  }
  return run;
}

SampleProcess process_from(const JsonFields& fields) {
  fields.only({"process", "started"});
  return {.pid = fields.integer("process", 0, std::numeric_limits<std::int64_t>::max()),
          .started = fields.text("started"),
          .runs = {}};
}

}  // namespace

std::string header_line(json header) {
  header["samples"] = sample_series_version;
  return header.dump() + "\n";
}

std::string process_line(const SampleProcess& process) {
  return json{{"process", process.pid}, {"started", process.started}}.dump() + "\n";
}

std::string run_line(const SampleRun& run) {
  json line{{"at_s", rounded(run.at_s)}, {"ttft_ms", rounded(run.ttft_ms)}, {"tpot_ms", rounded(run.tpot_ms)}};
  for (const double ms : run.token_ms) line["token_ms"].push_back(rounded(ms));
  if (run.is_warm_up) line["warm_up"] = true;
  if (run.is_throttled) line["throttled"] = true;
  return line.dump() + "\n";
}

SampleSeries parse_sample_series(std::string_view text, const std::string& where) {
  SampleSeries series;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string place = fmt::format("{}:{}", where, ++number);
    json object = parse_json(text.substr(begin, end - begin), place);
    begin = end + 1;
    const JsonFields fields(object, place);
    if (number == 1) {
      fields.integer("samples", sample_series_version, sample_series_version);
      series.header = std::move(object);
    } else if (fields.has("process")) {
      series.processes.push_back(process_from(fields));
    } else if (series.processes.empty()) {
      throw InputError(place, shown(object), "a line that begins a process, before its runs");
    } else {
      series.processes.back().runs.push_back(run_from(fields));
    }
  }
  if (number == 0) throw InputError(where, "empty", "a file that measure --samples-out wrote");
  return series;
}

SampleSeries read_sample_series(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw InputError(file, "cannot be read", "a file that measure --samples-out wrote");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_sample_series(text, file);
}

}  // namespace moetune
