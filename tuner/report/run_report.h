// Everything a report says, gathered once; the writers beside this file only lay it out. It comes from a run
// directory alone: no engine, no hardware, no clock. Start at read_run().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/facts/launch_profile.h"
#include "tuner/export/point_flags.h"
#include "tuner/final_round.h"
#include "tuner/objective.h"
#include "tuner/run_directory.h"
#include "tuner/trial.h"

namespace moetune {

// What was chosen and why; from choose().
struct Verdict {
  std::optional<std::int64_t> recommended;  // trial number; empty: nothing passes
  std::string reason;                       // in words
  std::optional<std::int64_t> runner_up;
  std::string why_not_runner_up;
  std::optional<FinalRound> final_round = std::nullopt;  // what it rests on; empty: the search alone
  std::string caution = "";                              // said where a final round is missing
};

struct RunReport {
  std::string run_path;  // as a person would type it
  RunRequest request;
  nlohmann::json hardware;
  std::vector<Trial> trials;          // trial 0 is the default configuration
  std::vector<Trial> measured_again;  // of final rounds
  std::vector<Trial>
      recordings;    // of where the time goes; what they found is among the metrics of their trials
  std::string torn;  // a torn last line was left out; empty: none
  std::vector<std::string> other_work;  // that ran beside it, by name; empty: none was seen
  std::vector<Objective> objectives;
  std::vector<std::int64_t> front;  // trial numbers, in the order of the first objective
  Verdict verdict;
  std::vector<Confirmation> confirmations;  // of what is recommended, from profile.json; oldest first

  std::map<std::int64_t, std::vector<PointFlags>>
      flags;  // of each server, by trial: the points of the profile

  const Trial& trial(std::int64_t number) const { return trials.at(static_cast<std::size_t>(number)); }
  // With the times of the final round, where it was in it.
  Trial measured_last(std::int64_t number) const;
  // "recommended, front", "default": what a trial is in this run; empty: none of it.
  std::string role_of(std::int64_t number) const;
};

// Reads request.json, hardware.json and trials.jsonl and finds the front. The verdict is left empty: choose()
// makes it from what is here. So are the confirmations. Throws InputError naming the file.
RunReport read_run(const std::string& run_path);

// Writes front.json, front.csv, report.md and report.html into the run directory. Throws std::runtime_error
// (disk).
void write_report_files(const RunReport& report);

}  // namespace moetune
