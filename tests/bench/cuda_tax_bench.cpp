// Where a decoded token's time goes on a GPU, and whether losses of known size are found where they belong.
//
//   cuda_tax_bench MODEL [sequences=1] [prompt=64] [new=32] [seconds=0.5] [turns=1] [knob=value ...] [inject]
//
// One row per configuration, in microseconds per token: plain (without recording), recorded / plain, the
// parts with what recording added taken out, what that was, and what is left unexplained. Then the same run
// as a timeline that is imported: its parts are to be ours within 3 %. inject: four more rows with a loss put
// in, then what each moved: the part marked with * is to move by as much as the token (within 10 %), every
// other by less than 5 % of it. turns: how often all of them are measured, one behind the other; a row is the
// median of its turns, a move the median of the differences within a turn, so that a card that grows warmer
// is no loss.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/engine.h"
#include "engine/facts/knobs.h"
#include "engine/option_rules.h"
#include "engine/sync_tax/account.h"
#include "engine/sync_tax/device_steps.h"
#include "engine/sync_tax/imported_trace.h"
#include "engine/sync_tax/injection.h"
#include "engine/sync_tax/timeline.h"
#include "engine/sync_tax/torch_reader.h"
#include "engine/tokenizer.h"
#include "tests/bench/cuda_bench.h"
#include "tuner/targets/tax_run.h"
#include "tuner/targets/workload_run.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

struct Asked {
  std::string model;
  std::string title;  // of the row
  Workload workload;
  double seconds = 0.5;  // a turn
  std::size_t turns = 1;
  bool injects = false;
};

constexpr std::array kShown = {Part::communication, Part::expert_loading, Part::synchronisation,
                               Part::launch_gaps,   Part::router,         Part::compute};

double us(const Breakdown& one, Part part) { return one.exposed_ns[static_cast<std::size_t>(part)] / 1e3; }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

// One configuration, once a turn.
using TurnsOf = std::vector<Breakdown>;

template <class Value>
double over_turns(const TurnsOf& turns, const Value& value) {
  std::vector<double> values;
  for (const Breakdown& one : turns) values.push_back(value(one));
  return median(std::move(values));
}

template <class Value>
double moved(const TurnsOf& before, const TurnsOf& after, const Value& value) {
  std::vector<double> values;
  for (std::size_t turn = 0; turn < before.size(); ++turn)
    values.push_back(value(after[turn]) - value(before[turn]));
  return median(std::move(values));
}

bool is_refused(const TurnsOf& turns) {
  return std::ranges::any_of(turns, [](const Breakdown& one) { return !one.refused.empty(); });
}

void print_row(const std::string& title, const TurnsOf& turns, std::int64_t unlabelled) {
  std::printf("%-44s %9.1f %6.3f", title.c_str(),
              over_turns(turns, [](const Breakdown& one) { return one.token_ns / 1e3; }),
              over_turns(turns, [](const Breakdown& one) { return one.recorded_ns / one.token_ns; }));
  for (const Part part : kShown)
    std::printf(" %9.1f", over_turns(turns, [&](const Breakdown& one) { return us(one, part); }));
  std::printf(
      " %8.1f %8.1f %+7.2f%% %5lld%s\n",
      over_turns(turns, [](const Breakdown& one) { return one.recording_ns / 1e3; }),
      over_turns(turns, [](const Breakdown& one) { return one.unexplained_ns / 1e3; }),
      over_turns(turns, [](const Breakdown& one) { return 100.0 * one.unexplained_ns / one.token_ns; }),
      static_cast<long long>(unlabelled), is_refused(turns) ? " refused" : "");
  std::fflush(stdout);
}

void print_heads() {
  std::printf("%-44s %9s %6s", "us per token", "plain", "rec/pl");
  for (const Part part : kShown)
    std::printf(" %9.9s", std::string(kPartNames[static_cast<std::size_t>(part)]).c_str());
  std::printf(" %8s %8s %8s %5s\n", "added", "unexpl.", "", "unlab");
}

struct Loss {
  const char* name;
  Injection injection;
  Part belongs_to;
};

void print_moves(const Loss& loss, const TurnsOf& before, const TurnsOf& after) {
  const double moved_us = moved(before, after, [](const Breakdown& one) { return one.token_ns / 1e3; });
  std::printf("%-44s %+9.1f       ", (std::string("  moved by ") + loss.name).c_str(), moved_us);
  bool holds = !is_refused(before) && !is_refused(after);
  for (const Part part : kShown) {
    const double part_us = moved(before, after, [&](const Breakdown& one) { return us(one, part); });
    const bool is_named = part == loss.belongs_to;
    const double off = std::abs(part_us - (is_named ? moved_us : 0.0)) / std::abs(moved_us);
    holds = holds && off < (is_named ? 0.10 : 0.05);
    std::printf(" %+8.1f%c", part_us, is_named ? '*' : ' ');
  }
  std::printf("          %+8.1f  %s\n",
              moved(before, after, [](const Breakdown& one) { return one.unexplained_ns / 1e3; }),
              holds ? "holds" : "DOES NOT HOLD");
  std::fflush(stdout);
}

// What recording adds to kernels of some lengths.
void print_cost(const DeviceRecordingCost& cost) {
  std::printf("  recording adds");
  for (const DeviceRecordingCost::Point& point : cost.kernels)
    std::printf(" %.0f of %.0f ns,", point.added_ns, point.length_ns);
  std::printf(" and to launches what is beyond %.1f us\n", cost.launch_call_ns / 1e3);
}

// The last recorded run as a timeline that is imported.
void print_import(const TaxResult& tax) {
  if (tax.last_records.empty()) return;
  // From the first to the last that is no input on its way, as an importer does.
  const std::vector<StepInterval> intervals = intervals_of_device(tax.last_records);
  std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = 0;
  for (const StepInterval& interval : intervals) {
    if (interval.activity == Activity::host_wait) continue;
    begin_ns = std::min(begin_ns, interval.begin_ns);
    end_ns = std::max(end_ns, interval.end_ns);
  }
  const Account ours = account(begin_ns, end_ns, intervals);
  const ImportedTrace trace = parse_torch_trace(timeline_of({}, {}, "", tax.last_records), "timeline");
  const Account theirs = imported_accounts(trace).at(0).account;
  std::printf("  imported (ours), us:");
  bool is_same = true;
  for (const Part part : kShown) {
    const auto theirs_us = static_cast<double>(theirs.exposed_ns[static_cast<std::size_t>(part)]) / 1e3;
    const auto ours_us = static_cast<double>(ours.exposed_ns[static_cast<std::size_t>(part)]) / 1e3;
    is_same = is_same && std::abs(theirs_us - ours_us) <= 0.03 * ours_us;
    std::printf(" %s %.1f (%.1f)", std::string(kPartNames[static_cast<std::size_t>(part)]).c_str(), theirs_us,
                ours_us);
  }
  std::printf("  %s\n", is_same ? "holds" : "DOES NOT HOLD");
  for (const auto& [name, ns] : trace.unmatched_ns)
    std::printf("  unmatched %.1f us %s\n", ns / 1e3, name.c_str());
}

void measure(const Asked& asked, const EngineOptions& options) {
  const auto checkpoint = open_checkpoint(asked.model);
  const TokenSource text = calibration_tokens(*checkpoint, "", 1 << 16);
  Engine engine(checkpoint, options, limits_of(asked.workload, options));
  const bool is_resident = options.expert_cache_fraction >= 1.0 && options.expert_cache_bytes == 0;
  std::vector<Loss> losses = {{"nothing", {}, Part::compute}};
  if (asked.injects) {
    losses.push_back({"100 empty nodes", {.empty_ops = 100}, Part::launch_gaps});
    losses.push_back({"host stall 200 us", {.host_stall_ns = 200'000}, Part::synchronisation});
    losses.push_back(
        {"expert bytes twice", {.expert_reads = 2}, is_resident ? Part::compute : Part::expert_loading});
    losses.push_back({"router spin 20 us", {.router_spin_ns = 20'000}, Part::router});
  }
  std::vector<std::vector<PlainRuns>> plain(losses.size());  // all of them before CUPTI is opened
  for (std::size_t turn = 0; turn < asked.turns; ++turn)
    for (std::size_t i = 0; i < losses.size(); ++i) {
      engine.inject(losses[i].injection);
      plain[i].push_back(plain_runs(engine, asked.workload, text, asked.seconds));
    }
  std::vector<TurnsOf> breakdowns(losses.size());
  std::vector<std::int64_t> unlabelled(losses.size());
  TaxResult first;
  for (std::size_t turn = 0; turn < asked.turns; ++turn)
    for (std::size_t i = 0; i < losses.size(); ++i) {
      engine.inject(losses[i].injection);
      TaxResult tax = measure_tax(engine, asked.workload, text, asked.seconds, {}, &plain[i][turn]);
      breakdowns[i].push_back(tax.decode.typical);
      unlabelled[i] += tax.unlabelled_kernels;
      if (turn == 0 && i == 0) first = std::move(tax);
    }

  print_heads();
  print_row(asked.title, breakdowns[0], unlabelled[0]);
  for (std::size_t row = 0; row < kRows; ++row)
    std::printf("  %s %.1f", std::string(kRowNames[row]).c_str(),
                over_turns(breakdowns[0], [&](const Breakdown& one) { return one.row_ns[row] / 1e3; }));
  std::printf("\n");
  print_cost(first.device_cost);
  print_import(first);
  for (std::size_t i = 1; i < losses.size(); ++i) {
    print_row(std::string("  with ") + losses[i].name, breakdowns[i], unlabelled[i]);
    print_moves(losses[i], breakdowns[0], breakdowns[i]);
  }
}

void bench_asked(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw std::invalid_argument("a model is missing; see the head of this file");
  setenv("MOETUNE_UNTRIED", "gpu_cache", 1);  // engine/untried.h: this is a program that tries it
  Asked asked{.model = arguments.front(), .title = arguments.front(), .workload = {}};
  asked.workload.prompt_tokens = 64;
  asked.workload.output_tokens = 32;
  asked.workload.sequences = 1;
  EngineOptions options = default_options(DeviceKind::cuda);
  for (const std::string& setting : std::vector(arguments.begin() + 1, arguments.end())) {
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const std::string name = setting.substr(0, equals);
    const std::string value = setting.substr(std::min(equals + 1, setting.size()));
    asked.title += name == "seconds" || name == "turns" || name == "inject" ? "" : " " + setting;
    if (name == "inject")
      asked.injects = true;
    else if (name == "seconds")
      asked.seconds = std::stod(value);
    else if (name == "turns")
      asked.turns = static_cast<std::size_t>(std::clamp(std::stoi(value), 1, 100));
    else if (name == "sequences")
      asked.workload.sequences = std::stoi(value);
    else if (name == "prompt")
      asked.workload.prompt_tokens = std::stoi(value);
    else if (name == "new")
      asked.workload.output_tokens = std::stoi(value);
    else
      set_knob(options, name, value);
  }
  measure(asked, options);
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  return moetune::bench::run_main([&] { moetune::bench_asked({argv + 1, argv + argc}); });
}

#else
int main() { return moetune::bench::without_cuda(); }
#endif
