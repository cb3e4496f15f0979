#include "tuner/commands/tonight.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <functional>

#include <fmt/format.h>

#include "tuner/commands/box_facts_of.h"
#include "tuner/commands/run_paths.h"
#include "tuner/metric_facts.h"
#include "tuner/other_work.h"
#include "tuner/round_values.h"

namespace moetune {
namespace {

// Looks at most every two seconds: a look reads a file of every process.
std::function<void()> occasionally(std::function<void()> look) {
  using Clock = std::chrono::steady_clock;
  return [look = std::move(look), last = Clock::now()]() mutable {
    if (Clock::now() - last < std::chrono::seconds(2)) return;
    last = Clock::now();
    look();
  };
}

// PCI addresses are written with four or eight digits of the domain, in either case.
bool is_same_gpu(std::string_view one, std::string_view other) {
  constexpr std::size_t short_form = 12;  // "0000:01:00.0"
  const auto tail = [](std::string_view id) {
    return id.substr(id.size() - std::min(id.size(), short_form));
  };
  return std::ranges::equal(tail(one), tail(other), [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  });
}

std::vector<GpuProcess> processes_on(const BoxFacts& box, const std::string& bus_id) {
  const auto gpu =
      std::ranges::find_if(box.gpus, [&](const GpuState& each) { return is_same_gpu(each.bus_id, bus_id); });
  return gpu == box.gpus.end() ? std::vector<GpuProcess>() : gpu->processes;
}

// What makes every time of now worthless, in doctor's words: other work on the GPU, throttling, swapping.
std::vector<std::string> what_spoils(const BoxFacts& box, const Study& study) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings_for(box, study.device == DeviceKind::cuda))
    if (finding.severity == Severity::spoils) texts.push_back(finding.what);
  return texts;
}

// What the run says of one configuration tonight.
NightlyPoint point_tonight(const CheckedConfiguration& checked, const NightlyStudyResult& measured,
                           const Objective& objective) {
  NightlyPoint point;
  point.role = checked.role;
  point.configuration = checked.configuration;
  point.then = checked.then;
  point.rounds_then = checked.rounds_then;
  const std::vector<Trial>& trials = measured.conclusion.report.trials;
  const auto trial = std::ranges::find(trials, checked.configuration, &Trial::configuration);
  if (trial == trials.end()) {
    point.failure = "it was not measured";
    return point;
  }
  if (trial->outcome != Outcome::ok) {
    point.failure = fmt::format("{}: {}", name_of(trial->outcome), trial->reason);
    return point;
  }
  point.now = trial->metrics;
  const Finalist* finalist = measured.round ? measured.round->find(trial->number) : nullptr;
  if (finalist == nullptr) return point;
  point.failure = finalist->failure;
  if (!finalist->failure.empty()) return point;
  point.now = with_final_times(trial->metrics, *finalist);
  point.rounds_now = round_values(trial->number, measured.conclusion.report.measured_again, objective.metric);
  return point;
}

NightlyStudy nightly_study(const TonightInput& input, const std::vector<CheckedConfiguration>& checked) {
  const LaunchProfile& profile = input.baseline.profile;
  NightlyStudy nightly;
  nightly.run_path = input.run_path.empty() ? new_run_path(runs_folder, input.study.model.name,
                                                           input.study.workload.name + "-ci")
                                            : input.run_path;
  nightly.baseline = &profile;
  nightly.default_configuration = standard_of(input.baseline, input.study);
  for (const CheckedConfiguration& each : checked) nightly.given.push_back(each.configuration);
  nightly.timing_seconds = input.measuring_seconds / (times_measured * static_cast<double>(checked.size()));
  nightly.command_line = input.command_line;
  if (input.budget_seconds) {
    nightly.budget_seconds = input.budget_seconds;
    nightly.space = space_for(input.study, profile.space);
    nightly.front = front_of(profile);
  }
  return nightly;
}

}  // namespace

std::vector<std::string> newcomers(const BoxFacts& before, const BoxFacts& after, const std::string& bus_id) {
  std::vector<std::string> names;
  const std::vector<GpuProcess> known = processes_on(before, bus_id);
  for (const GpuProcess& process : processes_on(after, bus_id)) {
    if (process.is_ours || std::ranges::find(known, process.pid, &GpuProcess::pid) != known.end()) continue;
    names.push_back(
        fmt::format("{} on the GPU (process {}, {})",
                    process.name.empty() ? "a process that cannot be seen from here" : process.name,
                    process.pid, value_text("device_bytes", static_cast<double>(process.bytes))));
  }
  return names;
}

std::optional<Tonight> measure_tonight(const TonightInput& input, NightlyRecord& record,
                                       const Console& console, const Interruption& interruption) {
  const Study& study = input.study;
  // Made-up numbers depend on nothing that this machine does.
  const BoxFacts before = study.made_up ? BoxFacts() : look_at_box(false);
  std::vector<std::string> others = study.made_up ? std::vector<std::string>() : what_spoils(before, study);
  if (!others.empty() && !input.judges_beside_other_work) {
    record.input.other_work = std::move(others);
    return std::nullopt;
  }
  const std::vector<CheckedConfiguration> checked = checked_configurations(input.baseline, study);
  NightlyStudy nightly = nightly_study(input, checked);
  CpuWatch watch(::getpid(), study.hardware.cpu_cores);
  const auto look = [&] {
    if (study.made_up) return;
    if (const auto snapshot = look_at_cpus()) watch.add(*snapshot);
  };
  look();
  nightly.on_look = occasionally(look);
  console.log(fmt::format(
      "{}\nmeasuring {} configurations in turns, the baseline's and its canaries; run directory {}",
      study_text(study), checked.size(), nightly.run_path));
  Tonight tonight{.run_path = nightly.run_path,
                  .measured = run_nightly_study(nightly, study, input.target, console, interruption)};
  look();
  if (tonight.measured.interrupted) return std::nullopt;
  record.seconds = tonight.measured.measuring_seconds;
  for (const CheckedConfiguration& each : checked)
    record.input.points.push_back(point_tonight(each, tonight.measured, record.input.objective));
  compare_rounds(record.input.points, record.input.objective);
  for (std::string& other : watch.disturbances()) others.push_back(std::move(other));
  if (!study.gpu_bus_id.empty())
    for (std::string& other : newcomers(before, look_at_box(false), study.gpu_bus_id))
      others.push_back(std::move(other));
  if (input.judges_beside_other_work && !others.empty())
    console.warn(fmt::format("judged although other work ran beside it: {}", fmt::join(others, ", ")));
  else
    record.input.other_work = std::move(others);
  return tonight;
}

}  // namespace moetune
