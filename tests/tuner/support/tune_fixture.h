// A search over the synthetic target with real workers, for tests that look into its log.
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/child_program.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/support/steady_calendar.h"
#include "tuner/tune.h"

namespace moetune {

inline Configuration with_top_k(int top_k) { return {{{"top_k", std::to_string(top_k)}}}; }

// Asks for what it was given, in that order, and keeps what it was told.
class ListSearcher : public Searcher {
 public:
  explicit ListSearcher(std::vector<Configuration> list) : list_(std::move(list)) {}
  std::optional<Configuration> ask() override {
    if (next_ == list_.size()) return std::nullopt;
    return list_[next_++];
  }
  void tell(const Trial& trial) override { told.push_back(trial); }
  std::vector<Trial> told;

 private:
  std::vector<Configuration> list_;
  std::size_t next_ = 0;
};

class TuneTest : public testing::Test {
 protected:
  TuneTest() {
    request.default_configuration = with_top_k(8);
    request.objectives = objectives;
    request.seed = 5;
    request.on_message = [this](const std::string& line) { messages += line + "\n"; };
    request.on_remark = [this](const std::string& line) { remarks += line + "\n"; };
    runner.worker_command = {tune_synthetic_program(), "worker"};
    runner.setup = {{"audit", folder / "audit"}};
    runner.calendar = steady_calendar;
  }
  TuneResult run(Searcher& searcher) {
    TrialLog log(log_file);
    return tune(request, searcher, log, runner, interruption);
  }
  std::vector<Trial> logged() const { return read_trial_log(log_file).trials; }
  std::size_t measurements() const {
    std::ifstream stream(folder / "audit");
    std::size_t count = 0;
    for (std::string line; std::getline(stream, line);) ++count;
    return count;
  }

  const TemporaryDirectory folder;
  const std::string log_file = folder / "trials.jsonl";
  const std::vector<Objective> objectives = objectives_named("tpot_ms,kl_mean");
  const Interruption interruption;
  TuneRequest request;
  TrialRunnerSettings runner;
  std::string messages;
  std::string remarks;
};

}  // namespace moetune
