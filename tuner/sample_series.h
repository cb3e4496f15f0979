// Raw times as `measure --samples-out` writes them: what intervals and verdicts are made from, so that noise can be looked at
// and replayed. One JSON object a line: first what was measured, then for every process a line that begins it and one for each
// of its runs, as they come; a file that was cut short is whole up to its last line. Start at read_sample_series().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace moetune {

struct SampleRun {
  double at_s = 0.0;             // when it began, in seconds since its process began to measure
  double ttft_ms = 0.0;          // mean over its prompts
  double tpot_ms = 0.0;          // mean over its decoded tokens; 0: there are none
  std::vector<double> token_ms;  // each of them, in their order; empty where only the mean was kept
  bool is_warm_up = false;
  bool is_throttled = false;     // the machine was held back meanwhile
};

struct SampleProcess {
  std::int64_t pid = 0;
  std::string started;  // UTC, ISO 8601
  std::vector<SampleRun> runs;
};

struct SampleSeries {
  nlohmann::json header;  // model, model_hash, workload, configuration, hardware, conditions: as measure --json has them
  std::vector<SampleProcess> processes;
};

inline constexpr int sample_series_version = 1;

// Lines of the file, each with its line end. Times to a tenth of a microsecond.
std::string header_line(nlohmann::json header);  // an object
std::string process_line(const SampleProcess& process);  // without its runs
std::string run_line(const SampleRun& run);

// Throws InputError naming the line and what is accepted. where: the file.
SampleSeries parse_sample_series(std::string_view text, const std::string& where);
SampleSeries read_sample_series(const std::string& file);

}  // namespace moetune
