// What verdicts and intervals hold on the recorded noise of real runs (reports/noise/*.jsonl), as a report.
// Seeded: the same figures on every machine; the tests insist on the bounds
// (tests/tuner/noise_replay_test.cpp).
//
//   noise_replay_bench > reports/noise/replay.txt
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/noise_experiments.h"
#include "tests/tuner/support/made_up_series.h"
#include "tuner/autocorrelation.h"
#include "tuner/statistics.h"

namespace moetune {
namespace {

constexpr int studies = 100;
constexpr int re_runs = 1000;

double percent(double share) { return 100.0 * share; }

double share(int part, int whole) { return whole == 0 ? 0.0 : percent(part / static_cast<double>(whole)); }

void print_coverage(const std::string& what, const Coverage& found) {
  std::printf(
      "  %-52s stated %5.1f %%  holds %5.1f %%  width %6.2f %%  bootstrap %6.2f %% (holds %5.1f %%)  ratio "
      "%.2f\n",
      what.c_str(), share(found.stated, found.re_runs), share(found.covered, found.stated),
      percent(found.width), percent(found.bootstrap_width), share(found.bootstrap_covered, found.bootstraps),
      found.width / found.bootstrap_width);
}

void print_noise(const RecordedNoise& noise) {
  const std::vector<double>& levels = noise.levels();
  const std::vector<double> lags = autocorrelations(levels, 8);
  double within = 0.0;
  double lag_within = 0.0;
  for (std::size_t process = 0; process < noise.processes(); ++process) {
    const std::vector<double>& runs = noise.factors(process);
    within += (quantile(runs, 0.75) - quantile(runs, 0.25)) / noise.level(process) /
              static_cast<double>(noise.processes());
    lag_within += autocorrelations(runs, 1).back() / static_cast<double>(noise.processes());
  }
  std::printf(
      "  %zu processes; their medians: 5 %% to 95 %% of them lie at %.3f to %.3f of the middle one, "
      "quartiles %.3f and %.3f\n",
      noise.processes(), quantile(levels, 0.05), quantile(levels, 0.95), quantile(levels, 0.25),
      quantile(levels, 0.75));
  std::printf(
      "  neighbouring processes: correlation %.2f at lag 1, %.2f at 2, %.2f at 4, %.2f at 8; %.1f tell as "
      "much as one\n",
      lags[1], lags[2], lags[4], lags[8], correlation_time(levels));
  std::printf(
      "  drift: the last third of the recording at %.3f of its first\n",
      median(std::span(levels).last(levels.size() / 3)) / median(std::span(levels).first(levels.size() / 3)));
  std::printf(
      "  within a process: runs have a quartile range of %.1f %%, mean, and a correlation of %.2f at lag 1\n",
      percent(within), lag_within);
}

void report_on(const std::string& file) {
  const RecordedNoise noise(file);
  std::printf("\n%s\n", noise_name(file).c_str());
  print_noise(noise);
  for (const double gain : {0.0, 0.02, 0.05, 0.1}) {
    const Adoptions found = adoptions(noise, gain, studies);
    std::printf(
        "  %d studies of ten configurations, one faster by %4.1f %%: default replaced in %d, by the faster "
        "one in %d; indeterminate %d; %.1f passes\n",
        found.studies, percent(gain), found.replaced, found.right, found.indeterminate, found.passes);
  }
  for (const std::size_t trials : {60, 100, 150, 250}) {
    const Repeats found = repeats(noise, 20, trials);
    if (std::getenv("MOETUNE_STUDIES") != nullptr)
      for (const std::string& line : found.each) std::printf("    %s\n", line.c_str());
    std::printf(
        "  20 fresh studies of %zu trials: %d recommend the same profile, %d that or one within its "
        "tolerance (%.1f %%)\n",
        trials, found.same, found.within_tolerance, percent(found.tolerance));
  }
  for (const std::int64_t rounds : {20, 40, 60})
    for (const double slowdown : {0.0, 0.05}) {
      const Alarms heard = alarms(noise, slowdown, 0.05, rounds, 100);
      std::printf(
          "  ci, threshold 5 %%, %ld rounds, canary %.0f %% slower: regression %d, ok %d, indeterminate %d "
          "of %d\n",
          static_cast<long>(rounds), percent(slowdown), heard.regressions, heard.ok, heard.indeterminate,
          heard.trials);
    }
  for (const double slowdown : {0.0, 0.05}) {
    const auto print = [&](const char* what, const Alarms& heard) {
      std::printf("  ci, threshold 5 %%, %s, %.0f %% slower: regression %d, ok %d, indeterminate %d of %d\n",
                  what, percent(slowdown), heard.regressions, heard.ok, heard.indeterminate, heard.trials);
    };
    print("night against the profile of another half minute", nights(noise, slowdown, 0.05, 100));
    print("60 passes beside the baseline's program", nights_beside(noise, slowdown, 0.05, 100));
  }
  print_coverage("measure, recorded in blocks of 3 processes", measure_coverage(noise, 3, re_runs));
  print_coverage("measure, 25 neighbouring processes (one minute only)",
                 measure_coverage(noise, 25, re_runs));
  print_coverage("paired ratio over 20 rounds as recorded", ratio_coverage(noise, 20, re_runs));
}

// Skewed, as times are.
std::vector<double> times_with(std::uint32_t number, int count, double correlation) {
  std::vector<double> series = made_up_series(number, count, correlation);
  for (double& value : series) value = std::exp(0.1 * value);
  return series;
}

}  // namespace
}  // namespace moetune

int main() {
  using namespace moetune;
  std::printf("Replays of recorded noise: %d seeded studies, %d re-runs each. Made by noise_replay_bench.\n",
              studies, re_runs);
  for (const std::string& file : noise_files()) report_on(file);
  std::printf("\nmade-up series, each value so much like the one before it\n");
  for (const int count : {50, 100, 400})
    for (const double correlation : {0.0, 0.3, 0.6, 0.8})
      print_coverage(
          std::to_string(count) + " samples, correlation " + std::to_string(correlation).substr(0, 3),
          coverage([&](std::uint32_t run) { return times_with(run, count, correlation); }, 1.0, re_runs));
  return 0;
}
