#include "tuner/commands/study_requests.h"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

Study study_of(const std::string& workload) {
  Study study;
  study.model.name = "a model";
  study.model.content_hash = "0123abcd";
  study.workload = workload_named(workload);
  study.conditions = {{"threads", 2}};
  study.objection = [](const Configuration& configuration) -> std::optional<std::string> {
    return configuration.values.empty() ? std::optional<std::string>("empty") : std::nullopt;
  };
  return study;
}

TEST(RunRequestOf, SaysWhatTheStudyIs) {
  const RunRequest request = run_request_of(study_of("chat"), {{{"top_k", "4"}}});
  EXPECT_EQ(request.model, "a model");
  EXPECT_EQ(request.model_hash, "0123abcd");
  EXPECT_EQ(request.workload, "chat");
  EXPECT_EQ(request.default_configuration, nlohmann::json({{"top_k", 4}}));
  EXPECT_EQ(request.conditions.at("threads"), 2);
  EXPECT_EQ(request.slo, "tpot_p99=50ms");
  EXPECT_FALSE(request.slo_asked) << "it is the workload's own";
  EXPECT_FALSE(request.build.empty());
}

TEST(RunRequestOf, AWorkloadWithoutAServiceLevelHasNone) {
  Study study = study_of("chat");
  study.workload.slo = {};
  EXPECT_EQ(run_request_of(study, {}).slo, "");
}

TEST(TuneRequestOf, AsksForTheStudyAndTellsTheProgress) {
  const std::vector<Objective> objectives = objectives_named("tpot_ms,kl_mean");
  std::FILE* stream = std::tmpfile();
  ASSERT_NE(stream, nullptr);
  Progress progress(stream, Terminal{}, false);
  const TuneRequest request = tune_request_of(study_of("chat"), {{{"top_k", "4"}}}, objectives, 7, progress);
  EXPECT_EQ(request.default_configuration.values.at("top_k"), "4");
  EXPECT_EQ(request.objectives.data(), objectives.data());
  EXPECT_EQ(request.seed, 7U);
  EXPECT_EQ(request.objection({}), "empty");
  EXPECT_FALSE(request.objection(request.default_configuration));
  EXPECT_FALSE(request.budget_seconds);
  request.on_message("a worker's line");
  TuneStatus status;
  status.trials_done = 2;
  request.on_status(status);
  std::rewind(stream);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stream));
  EXPECT_NE(text.find("a worker's line"), std::string::npos) << text;
  EXPECT_NE(text.find("2 trials done"), std::string::npos) << text;
  std::fclose(stream);
}

}  // namespace
}  // namespace moetune
