// The baseline's program beside this one: what is planted in this one is not in that, and what cannot run is
// refused by name.
#include "tuner/commands/baseline_program.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

const Objective tpot = objectives_named("tpot_ms").front();

TrialRunnerSettings settings() {
  TrialRunnerSettings made;
  made.setup = {{"target", "synthetic"}, {"synthetic", nlohmann::json::object()}};
  return made;
}

TEST(WithoutPlanted, LeavesEverythingElse) {
  EXPECT_EQ(without_planted({{"target", "engine"}, {"engine", {{"model", "m"}, {"injected_delay_ms", 1.5}}}}),
            (nlohmann::json{{"target", "engine"}, {"engine", {{"model", "m"}, {"injected_delay_ms", 0.0}}}}));
  EXPECT_EQ(
      without_planted({{"target", "synthetic"}, {"synthetic", {{"mood", 0.1}, {"slower", 1}, {"fail", 2}}}}),
      (nlohmann::json{{"target", "synthetic"}, {"synthetic", {{"mood", 0.1}}}}));
}

TEST(BaselineProgram, OneThatIsNotThereIsRefused) {
  for (const char* file : {"/nowhere", "/"})
    EXPECT_TRUE(has_text(message_of<InputError>([&] { BaselineProgram(file, settings(), {}, tpot); }),
                         "--baseline-program: '"))
        << file;
}

TEST(BaselineProgram, OneThatIsNoMoetuneIsRefused) {
  const Interruption interruption;
  BaselineProgram program("/bin/true", settings(), {}, tpot);
  const std::string message = message_of<InputError>([&] { program.measure(1, interruption); });
  EXPECT_TRUE(has_text(message, "--baseline-program: '/bin/true': no worker can be started"));
  EXPECT_TRUE(has_text(message, "last night's build"));
}

}  // namespace
}  // namespace moetune
