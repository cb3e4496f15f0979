// One configuration in several fresh processes of the synthetic target.
#include "tuner/replicate.h"

#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/child_program.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

class ReplicateTest : public testing::Test {
 protected:
  ReplicateTest() {
    settings.everything.worker_command = {tune_synthetic_program(), "worker"};
    settings.processes = 9;
    settings.most_seconds = 60.0;
    use({{"audit", folder / "audit"}});
  }
  void use(const nlohmann::json& target) {
    settings.everything.setup = target;
    settings.timing_setup = target;
    settings.timing_setup["timing_only"] = true;
  }
  Replication measured() {
    const auto found = measure_in_processes(settings, {{{"top_k", "7"}}}, 1, interruption);
    EXPECT_TRUE(found.has_value());
    return found.value_or(Replication{});
  }
  std::set<std::string> processes() const {
    std::set<std::string> seen;
    std::ifstream audit(folder / "audit");
    for (std::string configuration, process; audit >> configuration >> process;) seen.insert(process);
    return seen;
  }

  const TemporaryDirectory folder;
  const Interruption interruption;
  ReplicationSettings settings;
};

TEST_F(ReplicateTest, TimesComeFromAllProcessesAccuracyFromTheFirst) {
  const Replication replication = measured();
  EXPECT_EQ(replication.trial.outcome, Outcome::ok);
  EXPECT_EQ(processes().size(), 9U);
  ASSERT_EQ(replication.processes.size(), 9U);
  EXPECT_EQ(replication.trial.metrics.at("tpot_ms").processes, 9);
  EXPECT_EQ(replication.trial.metrics.at("tpot_ms").n, 9 * 40);
  EXPECT_EQ(replication.trial.metrics.at("kl_mean").processes, 1);
  EXPECT_EQ(replication.trial.metrics.at("device_bytes").processes, 1);
}

TEST_F(ReplicateTest, TheIntervalSaysWhatProcessesDifferBy) {
  const auto relative_width = [&] {
    const Measurement tpot = measured().trial.metrics.at("tpot_ms");
    return (*tpot.high - *tpot.low) / tpot.value;
  };
  EXPECT_LT(relative_width(), 0.012);  // the target's noise alone
  use({{"mood", 0.8}});
  const Replication moody = measured();
  const Measurement& tpot = moody.trial.metrics.at("tpot_ms");
  EXPECT_GT((*tpot.high - *tpot.low) / tpot.value, 0.1);
  int inside = 0;
  for (const Metrics& process : moody.processes) {
    const double value = process.at("tpot_ms").value;
    inside += *tpot.low <= value && value <= *tpot.high ? 1 : 0;
  }
  EXPECT_EQ(inside, 7) << "all but the fastest and the slowest";
}

TEST_F(ReplicateTest, ASecondProcessAlwaysAndNoFurtherOneAfterTheTime) {
  settings.most_seconds = 0.0;
  const Replication replication = measured();
  EXPECT_EQ(replication.processes.size(), 2U);
  EXPECT_EQ(replication.trial.metrics.at("tpot_ms").processes, 2);
}

TEST_F(ReplicateTest, AFailureOfAnyProcessIsTheOutcome) {
  settings.timing_setup = {{"fail", {{{"when", nlohmann::json::object()}, {"how", "exit"}}}}};
  const Replication replication = measured();
  EXPECT_EQ(replication.trial.outcome, Outcome::crashed);
  EXPECT_TRUE(has_text(replication.trial.reason, "in process 2: the worker ended with exit status 3"));
}

}  // namespace
}  // namespace moetune
