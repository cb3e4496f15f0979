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
std::string why_file_in(const std::string& folder) { return folder + "/no_default_arrivals"; }

// Returns why it could not be written; empty: it was.
std::string write_in(const std::string& folder, const std::string& file, const std::string& text) {
  if (folder.empty()) return "there is no folder for it";
  try {
    write_file_atomically(file, text);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

double completed_per_s(Engine& engine, const Workload& workload, const TokenSource& text,
                       const StepPrice& price, double most_run_seconds) {
  Workload at_once = workload;
  at_once.arrivals_per_s = 0.0;
  std::vector<double> per_s;
  int runs = 1;
  for (int run = 0; run <= runs; ++run) {
    const double limit = run == 0 ? most_run_seconds : no_limit;
    const RunTimes times = run_workload(engine, at_once, text, static_cast<std::uint64_t>(run), price, limit);
    if (run > 0)
      per_s.push_back(static_cast<double>(times.requests.size()) / times.seconds);
    else if (capacity_runs * times.seconds <= most_run_seconds)  // the first one warms up
      runs = capacity_runs;
  }
  return median(per_s);
}

ArrivalRate read_arrival_rate(const std::string& folder) {
  ArrivalRate rate;
  if (folder.empty()) return rate;
  std::ifstream file(file_in(folder));
  if (!(file >> rate.per_s) || !std::isfinite(rate.per_s) || rate.per_s <= 0.0) return {};
  std::getline(file >> std::ws, rate.note);
  return rate;
}

std::string write_arrival_rate(const std::string& folder, const ArrivalRate& rate) {
  return write_in(folder, file_in(folder),
                  fmt::format("{:.17g}\n{}", rate.per_s, rate.note.empty() ? "" : rate.note + "\n"));
}

std::string read_why_no_default_rate(const std::string& folder) {
  std::string why;
  if (folder.empty()) return why;
  std::ifstream file(why_file_in(folder));
  std::getline(file, why);
  return why;
}

std::string write_why_no_default_rate(const std::string& folder, const std::string& why) {
  return write_in(folder, why_file_in(folder), why + "\n");
}

}  // namespace moetune
