// Every way in which a worker can fail, with real worker processes (the synthetic target's).
#include "tuner/trial_runner.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/child_program.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/support/steady_calendar.h"

namespace moetune {
namespace {
using nlohmann::json;
using namespace std::chrono_literals;

const Configuration configuration{{{"top_k", "6"}, {"expert_quant", "int8"}}};
const Configuration other{{{"top_k", "5"}, {"expert_quant", "int8"}}};

std::string contents_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

class TrialRunnerTest : public testing::Test {
 protected:
  TrialRunnerSettings settings(json setup) {
    TrialRunnerSettings made;
    made.worker_command = {tune_synthetic_program(), "worker"};
    setup["audit"] = folder / "audit";
    made.setup = std::move(setup);
    made.trial_limit_seconds = 60.0;
    made.setup_limit_seconds = 60.0;
    made.calendar = steady_calendar;
    made.on_message = [this](const std::string& line) { messages += line + "\n"; };
    made.on_progress = [this](const std::string& words) { progress += words + "\n"; };
    return made;
  }
  // Settings for a target that fails for `configuration` and for nothing else.
  TrialRunnerSettings failing(const std::string& how, json more = json::object()) {
    more["when"] = {{"top_k", 6}};
    more["how"] = how;
    return settings({{"fail", {more}}});
  }
  // The trial of `configuration`; afterwards another one must succeed, whatever happened to the worker.
  Trial run(const TrialRunnerSettings& with) {
    TrialRunner runner(with, interruption);
    const auto trial = runner.run(0, configuration, 11);
    const auto next = runner.run(1, other, 12);
    EXPECT_TRUE(next && next->outcome == Outcome::ok);
    return trial.value();
  }
  int measurements() const {
    std::ifstream stream(folder / "audit");
    int count = 0;
    for (std::string line; std::getline(stream, line);) ++count;
    return count;
  }

  const TemporaryDirectory folder;
  const Interruption interruption;
  std::string messages;
  std::string progress;
};

TEST_F(TrialRunnerTest, MeasuresInOneWorker) {
  TrialRunner runner(settings({}), interruption);
  const auto first = runner.run(0, configuration, 11);
  ASSERT_TRUE(first);
  const std::vector<pid_t> workers = children_of(::getpid());
  ASSERT_EQ(workers.size(), 1U);
  const auto second = runner.run(1, configuration, 11);
  EXPECT_EQ(children_of(::getpid()), workers) << "kept for the next trial";
  EXPECT_EQ(first->outcome, Outcome::ok);
  EXPECT_EQ(first->reason, "");
  EXPECT_EQ(first->seed, 11U);
  EXPECT_EQ(to_json_value(first->metrics), to_json_value(second->metrics)) << "same configuration, same seed";
  EXPECT_NE(to_json_value(first->metrics), to_json_value(runner.run(2, configuration, 12)->metrics))
      << "another seed";
  EXPECT_EQ(first->started.size(), std::string("2026-11-29T16:46:39Z").size());
  EXPECT_TRUE(has_text(progress, "starting the worker\nsynthetic: measuring\n"));
  EXPECT_EQ(messages, "");
}

// The second runner finds the worker of the first one, set up for something else.
TEST_F(TrialRunnerTest, AWorkerInTheSeatServesTheNextRunner) {
  const auto seat = std::make_shared<WorkerSeat>();
  TrialRunnerSettings first = settings({});
  TrialRunnerSettings second = settings({{"fail", {{{"when", {{"top_k", 6}}}, {"how", "wrong_output"}}}}});
  first.seat = second.seat = seat;
  EXPECT_EQ(TrialRunner(first, interruption).run(0, configuration, 1)->outcome, Outcome::ok);
  ASSERT_TRUE(seat->worker);
  const std::vector<pid_t> workers = children_of(::getpid());
  ASSERT_EQ(workers.size(), 1U);
  EXPECT_EQ(TrialRunner(second, interruption).run(0, configuration, 1)->outcome, Outcome::wrong_output);
  EXPECT_EQ(TrialRunner(second, interruption).run(1, other, 1)->outcome, Outcome::ok);
  EXPECT_EQ(children_of(::getpid()), workers);
  EXPECT_NE(progress.find("setting the worker up for something else"), std::string::npos) << progress;

  // One that died in its seat costs nothing.
  seat->worker->kill();
  EXPECT_EQ(TrialRunner(first, interruption).run(2, configuration, 1)->outcome, Outcome::ok);
}

TEST_F(TrialRunnerTest, EndsItsWorker) {
  pid_t worker = 0;
  {
    TrialRunner runner(settings({}), interruption);
    runner.run(0, configuration, 1);
    worker = children_of(::getpid()).at(0);
  }
  EXPECT_TRUE(is_gone(worker));
}

TEST_F(TrialRunnerTest, ACrashIsTriedTwiceAndThenRecorded) {
  const Trial trial = run(failing("crash"));
  EXPECT_EQ(trial.outcome, Outcome::crashed);
  EXPECT_TRUE(has_text(trial.reason, "the worker was killed by SIGSEGV; it was at: synthetic: measuring"));
  EXPECT_TRUE(
      has_text(messages, "trial 0: the worker was killed by SIGSEGV; it was at: synthetic: measuring"));
  EXPECT_TRUE(has_text(messages, "; trying once more in a fresh one"));
  EXPECT_TRUE(trial.metrics.empty());
  EXPECT_EQ(measurements(), 3) << "two tries and the other configuration";
}

TEST_F(TrialRunnerTest, AWorkerKilledOnceIsReplacedAndTheTrialCounts) {
  const Trial trial = run(failing("kill", {{"once", folder / "marker"}}));
  EXPECT_EQ(trial.outcome, Outcome::ok);
  EXPECT_EQ(trial.reason, "");
  EXPECT_TRUE(has_text(messages, "the worker was killed by SIGKILL"));
  EXPECT_EQ(measurements(), 3);
}

TEST_F(TrialRunnerTest, AWorkerKilledBetweenTrialsCostsNoTry) {
  TrialRunner runner(settings({}), interruption);
  runner.run(0, configuration, 1);
  const pid_t worker = children_of(::getpid()).at(0);
  ::kill(worker, SIGKILL);
  ASSERT_TRUE(is_gone_within(worker, 10s));
  EXPECT_EQ(runner.run(1, configuration, 1)->outcome, Outcome::ok);
  EXPECT_EQ(messages, "");
}

TEST_F(TrialRunnerTest, AnExitSaysItsStatusAndLastWords) {
  const Trial trial = run(failing("exit"));
  EXPECT_EQ(trial.outcome, Outcome::crashed);
  EXPECT_TRUE(has_text(trial.reason, "ended with exit status 3"));
  EXPECT_TRUE(has_text(trial.reason, "last words: synthetic: giving up"));
  EXPECT_TRUE(has_text(trial.reason, "(twice)"));
  EXPECT_TRUE(has_text(messages, "worker: synthetic: giving up\n")) << "shown at once, too";
}

TEST_F(TrialRunnerTest, AHangTimesOutAndSaysWhatItWasAt) {
  TrialRunnerSettings with = failing("hang");
  with.trial_limit_seconds = 2.0;
  TrialRunner runner(with, interruption);
  const auto trial = runner.run(0, configuration, 1);
  ASSERT_TRUE(trial);
  EXPECT_EQ(trial->outcome, Outcome::timed_out);
  EXPECT_EQ(trial->reason, "no result within 2 s; in flight: SyntheticHang; it was at: synthetic: measuring");
  EXPECT_FALSE(has_text(messages, "in flight"))
      << "an answer to the tuner, not one of the worker's own lines";
  EXPECT_GE(trial->seconds, 2.0);
  EXPECT_EQ(measurements(), 1) << "not tried again: it would only take as long";
  EXPECT_TRUE(children_of(::getpid()).empty());
}

// One that cannot even answer a signal must not hold the tuner up for ever.
TEST_F(TrialRunnerTest, AHangThatDoesNotKnowTheSignalIsKilledAllTheSame) {
  TrialRunnerSettings with = settings({});
  with.worker_command = {"/bin/sh", "-c", "sleep 600"};
  with.setup_limit_seconds = 0.2;
  EXPECT_TRUE(has_text(
      message_of<std::runtime_error>([&] { TrialRunner(with, interruption).run(0, configuration, 1); }),
      "it was not ready within 0.2 s"));
  EXPECT_TRUE(children_of(::getpid()).empty());
}

TEST_F(TrialRunnerTest, AWorkerBeyondItsMemoryLimitIsOutOfMemory) {
  TrialRunnerSettings with = failing("fill_memory");
  with.host_memory_limit_bytes = std::int64_t{400} << 20;
  const Trial trial = run(with);
  EXPECT_EQ(trial.outcome, Outcome::out_of_memory);
  EXPECT_TRUE(has_text(trial.reason, "MiB of host memory, more than its limit of 400 MiB")) << trial.reason;
  EXPECT_EQ(measurements(), 2) << "once and the other one: it would only take as much again";
}

// Nobody can set the clock that times are taken with; that somebody set the calendar is said.
TEST_F(TrialRunnerTest, AClockThatJumpsIsNamedAndChangesNoTime) {
  for (const int jump_seconds : {3600, -7200}) {
    messages.clear();
    TrialRunnerSettings with = settings({});
    int looks = 0;
    with.calendar = [&] { return steady_calendar() + jump_seconds * 1s * looks++; };
    const auto trial = TrialRunner(with, interruption).run(3, configuration, 1);
    ASSERT_TRUE(trial);
    EXPECT_EQ(trial->outcome, Outcome::ok);
    EXPECT_LT(trial->seconds, 600.0) << "not what the calendar says";
    EXPECT_NEAR(trial->clock_jump_seconds.value_or(0.0), jump_seconds, 60.0);
    EXPECT_TRUE(has_text(messages, "trial 3: the system clock jumped by ")) << messages;
  }
  messages.clear();
  const auto usual = TrialRunner(settings({}), interruption).run(3, configuration, 1);
  ASSERT_TRUE(usual);
  EXPECT_FALSE(usual->clock_jump_seconds.has_value());
  EXPECT_FALSE(has_text(messages, "clock")) << messages;
}

TEST_F(TrialRunnerTest, AWorkerHasAName) {
  TrialRunner runner(settings({}), interruption);
  ASSERT_TRUE(runner.run(0, configuration, 1));
  const std::vector<pid_t> workers = children_of(::getpid());
  ASSERT_EQ(workers.size(), 1U);
  EXPECT_EQ(contents_of("/proc/" + std::to_string(workers[0]) + "/comm"), "moetune worker\n");
}

TEST_F(TrialRunnerTest, AFailedAllocationIsOutOfMemory) {
  const Trial trial = run(failing("out_of_memory"));
  EXPECT_EQ(trial.outcome, Outcome::out_of_memory);
  EXPECT_TRUE(has_text(trial.reason, "std::bad_alloc"));
  EXPECT_EQ(measurements(), 2) << "not tried again";
}

TEST_F(TrialRunnerTest, AKillByTheKernelForMemoryIsOutOfMemory) {
  // The counter the kernel would raise, raised by the target's own audit trail: a file that begins with the
  // line.
  const std::string counter = folder / "memory.events";
  std::ofstream(counter) << "oom 0\noom_kill 4\n";
  TrialRunnerSettings with = failing("kill");
  with.memory_kill_counter = counter;
  with.on_progress = [&](const std::string& words) {
    if (words == "synthetic: measuring") std::ofstream(counter) << "oom 1\noom_kill 5\n";
  };
  TrialRunner runner(with, interruption);
  const auto trial = runner.run(0, configuration, 1);
  ASSERT_TRUE(trial);
  EXPECT_EQ(trial->outcome, Outcome::out_of_memory);
  EXPECT_TRUE(has_text(trial->reason, "killed by the kernel for lack of memory"));
  EXPECT_EQ(measurements(), 1);
}

TEST_F(TrialRunnerTest, AThrownExceptionIsACrashWithItsWords) {
  const Trial trial = run(failing("throw"));
  EXPECT_EQ(trial.outcome, Outcome::crashed);
  EXPECT_EQ(trial.reason,
            "the worker gave up: synthetic: thrown on purpose; it was at: synthetic: measuring (twice)");
  EXPECT_EQ(measurements(), 3);
}

TEST_F(TrialRunnerTest, GarbageOnTheProtocolIsACrash) {
  const Trial trial = run(failing("garbage"));
  EXPECT_EQ(trial.outcome, Outcome::crashed);
  EXPECT_TRUE(has_text(trial.reason, "broke the protocol: message from the worker"));
}

TEST_F(TrialRunnerTest, WhatATargetPrintsIsNotTakenForAMessage) {
  const Trial trial = run(failing("print"));
  EXPECT_EQ(trial.outcome, Outcome::ok);
  EXPECT_TRUE(has_text(messages, "worker: {\"result\": \"printed by the target\"}"));
}

TEST_F(TrialRunnerTest, ExpectedFailuresKeepTheWorker) {
  TrialRunner runner(failing("wrong_output"), interruption);
  EXPECT_EQ(runner.run(0, other, 1)->outcome, Outcome::ok);
  const std::vector<pid_t> worker = children_of(::getpid());
  const auto trial = runner.run(1, configuration, 1);
  EXPECT_EQ(trial->outcome, Outcome::wrong_output);
  EXPECT_EQ(trial->reason, "synthetic: logits differ");
  EXPECT_EQ(children_of(::getpid()), worker);
}

TEST_F(TrialRunnerTest, ANumberThatIsNotFiniteIsAWrongOutput) {
  const Trial trial = run(failing("not_finite"));
  EXPECT_EQ(trial.outcome, Outcome::wrong_output);
  EXPECT_TRUE(has_text(trial.reason, "not finite"));
}

TEST_F(TrialRunnerTest, WhatAWorkerStartedEndsWithIt) {
  const Trial trial = run(failing("orphan", {{"pid_file", folder / "pid"}}));
  EXPECT_EQ(trial.outcome, Outcome::crashed);
  const auto orphan = static_cast<pid_t>(std::atol(contents_of(folder / "pid").c_str()));
  ASSERT_GT(orphan, 0);
  EXPECT_TRUE(is_gone_within(orphan, 10s));
}

TEST_F(TrialRunnerTest, ASetupThatFailsEndsTheRun) {
  const auto complaint = [&](const char* how) {
    return [this, how] { TrialRunner(settings({{"setup", how}}), interruption).run(0, configuration, 1); };
  };
  EXPECT_EQ(message_of<InputError>(complaint("bad_input")),
            "synthetic.json: model: 'nowhere' (accepted: a model that is there)");
  EXPECT_EQ(message_of<std::runtime_error>(complaint("throw")),
            "the worker cannot be set up: synthetic: no model");
  EXPECT_EQ(message_of<std::runtime_error>(complaint("kill")),
            "no worker can be started: it was killed by SIGKILL; it was at: starting the worker");
  TrialRunnerSettings hanging = settings({{"setup", "hang"}});
  hanging.setup_limit_seconds = 0.2;
  EXPECT_TRUE(has_text(
      message_of<std::runtime_error>([&] { TrialRunner(hanging, interruption).run(0, configuration, 1); }),
      "no worker can be started: it was not ready within 0.2 s"));
}

TEST_F(TrialRunnerTest, AProgramThatIsNoWorkerIsFoundOut) {
  TrialRunnerSettings with = settings({});
  with.worker_command = {"/bin/echo", "hello"};
  EXPECT_TRUE(has_text(
      message_of<std::runtime_error>([&] { TrialRunner(with, interruption).run(0, configuration, 1); }),
      "no worker can be started: it ended with exit status 0"));
  with.worker_command = {"/bin/sh", "-c", "echo nonsense >&4; read forever"};
  EXPECT_TRUE(has_text(
      message_of<std::runtime_error>([&] { TrialRunner(with, interruption).run(0, configuration, 1); }),
      "broke the protocol"));
  with.worker_command = {"/bin/sh", "-c",
                         "echo '{\"hello\":{\"protocol\":99,\"build\":\"9.9\"}}' >&4; read forever"};
  EXPECT_TRUE(has_text(
      message_of<std::runtime_error>([&] { TrialRunner(with, interruption).run(0, configuration, 1); }),
      "speaks protocol 99 (build 9.9), not 1"));
  with.worker_command = {"/bin/sh", "-c", "head -c 40000000 /dev/zero >&4"};
  EXPECT_TRUE(has_text(
      message_of<std::runtime_error>([&] { TrialRunner(with, interruption).run(0, configuration, 1); }),
      "longer than any message"));
  with.worker_command = {folder / "none"};
  EXPECT_TRUE(has_text(
      message_of<std::runtime_error>([&] { TrialRunner(with, interruption).run(0, configuration, 1); }),
      "cannot be started: No such file"));
}

TEST_F(TrialRunnerTest, AWorkerThatPrintsWithoutEndDoesNotStopTheTuner) {
  TrialRunnerSettings with = settings({});
  with.worker_command = {"/bin/sh", "-c", "yes | head -c 3000000; head -c 3000000 /dev/zero; exit 7"};
  with.on_message = {};
  EXPECT_TRUE(has_text(
      message_of<std::runtime_error>([&] { TrialRunner(with, interruption).run(0, configuration, 1); }),
      "ended with exit status 7"));
}

TEST_F(TrialRunnerTest, AnInterruptionStopsTheWorkerAtOnce) {
  TrialRunnerSettings with = failing("hang");
  with.on_progress = [](const std::string& words) {
    if (words == "synthetic: measuring") ::raise(SIGINT);
  };
  TrialRunner runner(with, interruption);
  EXPECT_FALSE(runner.run(0, configuration, 1));
  EXPECT_TRUE(interruption.requested());
  EXPECT_TRUE(children_of(::getpid()).empty());
}

TEST_F(TrialRunnerTest, AWorkerByHandSaysWhoStartsWorkers) {
  ChildProgram by_hand({tune_synthetic_program(), "worker"}, folder / "out");
  EXPECT_EQ(by_hand.wait(), 2);
  EXPECT_TRUE(
      has_text(contents_of(folder / "out"), "moetune worker: was started by hand (accepted: moetune tune"));
}

}  // namespace
}  // namespace moetune
