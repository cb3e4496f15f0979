#include "tests/support/noise_replay.h"

#include <algorithm>
#include <filesystem>

#include "engine/facts/error.h"
#include "tests/support/source_dir.h"
#include "tuner/counter_rng.h"
#include "tuner/sample_series.h"
#include "tuner/statistics.h"

namespace moetune {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t fewest_processes = 50;
constexpr auto suffix = ".jsonl";

}  // namespace

RecordedNoise::RecordedNoise(const std::string& file) {
  for (const SampleProcess& process : read_sample_series(file).processes) {
    std::vector<double> times;
    for (const SampleRun& run : process.runs)
      if (!run.is_warm_up && !run.is_throttled) times.push_back(run.tpot_ms);
    if (!times.empty()) factors_.push_back(std::move(times));
  }
  if (factors_.size() < fewest_processes)
    throw InputError(file, std::to_string(factors_.size()) + " processes", std::to_string(fewest_processes) + " or more");
  make_relative();
}

RecordedNoise::RecordedNoise(std::vector<std::vector<double>> processes) : factors_(std::move(processes)) { make_relative(); }

void RecordedNoise::make_relative() {
  for (const std::vector<double>& times : factors_) levels_.push_back(median(times));
  const double long_run = median(levels_);
  for (std::vector<double>& times : factors_)
    for (double& time : times) time /= long_run;
  for (double& level : levels_) level /= long_run;
}

std::vector<std::string> noise_files() {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(source_dir()) / "reports" / "noise"))
    if (entry.path().extension() == suffix) files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

std::string noise_name(const std::string& file) { return fs::path(file).stem().string(); }

Machine::Machine(const RecordedNoise& noise, std::uint64_t seed)
    : noise_(noise), next_(CounterRng(seed, RngStage::bootstrap).below(noise.processes(), 0)) {}

Measurement Machine::time(double true_ms) {
  std::vector<double> times;
  for (const double factor : noise_.factors(next_)) times.push_back(true_ms * factor);
  ++next_;
  return time_measurement(times, "replayed");
}

}  // namespace moetune
