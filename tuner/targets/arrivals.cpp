#include "tuner/targets/arrivals.h"

#include <cmath>
#include <exception>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "tuner/durable_file.h"
#include "tuner/statistics.h"
#include "tuner/targets/workload_run.h"

namespace moetune {
namespace {

constexpr int capacity_runs = 3;

std::string file_in(const std::string& folder) { return folder + "/arrivals_per_s"; }

}  // namespace

double completed_per_s(Engine& engine, const Workload& workload, const TokenSource& text,
                       const StepPrice& price) {
  Workload at_once = workload;
  at_once.arrivals_per_s = 0.0;
  std::vector<double> per_s;
  for (int run = 0; run <= capacity_runs; ++run) {
    const RunTimes times = run_workload(engine, at_once, text, static_cast<std::uint64_t>(run), price);
    if (run > 0)
      per_s.push_back(static_cast<double>(times.requests.size()) / times.seconds);  // the first one warms up
  }
  return median(per_s);
}

double read_arrival_rate(const std::string& folder) {
  double per_s = 0.0;
  if (folder.empty()) return 0.0;
  std::ifstream file(file_in(folder));
  return file >> per_s && std::isfinite(per_s) && per_s > 0.0 ? per_s : 0.0;
}

std::string write_arrival_rate(const std::string& folder, double per_s) {
  if (folder.empty()) return "there is no folder for it";
  try {
    write_file_atomically(file_in(folder), fmt::format("{:.17g}\n", per_s));
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace moetune
