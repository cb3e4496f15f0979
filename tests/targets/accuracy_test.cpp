// Accuracy against the reference, on tiny-moe where the answers are known, and on invented samples.
#include "tuner/targets/accuracy.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/facts/knobs.h"
#include "engine/tokenizer.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tuner/targets/teacher_forcing.h"

namespace moetune {
namespace {

AccuracySamples invented(std::int64_t n) {
  AccuracySamples samples;
  for (std::int64_t i = 0; i < n; ++i) {
    samples.kl.push_back(static_cast<double>(i % 100) / 1000.0);
    samples.same_top.push_back(i % 20 == 0 ? 0.0 : 1.0);
    samples.surprise_change.push_back(std::log(1.1));
    samples.reference_power.push_back(100.0);
    samples.difference_power.push_back(1.0);
    samples.flipped_experts.push_back(1.0);
    samples.chosen_experts.push_back(4.0);
    samples.router_mass.push_back(0.75);
  }
  return samples;
}

TEST(AccuracyMetrics, FollowTheirDefinitions) {
  const Metrics metrics = accuracy_metrics(invented(4096), 256);
  EXPECT_NEAR(metrics.at("kl_mean").value, 0.0495, 1e-3);
  EXPECT_NEAR(metrics.at("kl_p99").value, 0.098, 2e-3);
  EXPECT_NEAR(metrics.at("top1_agreement").value, 0.95, 1e-3);
  EXPECT_NEAR(metrics.at("perplexity_ratio").value, 1.1, 1e-9);
  EXPECT_NEAR(metrics.at("output_snr_db").value, 20.0, 1e-9);
  EXPECT_NEAR(metrics.at("route_flip_rate").value, 0.25, 1e-9);
  EXPECT_NEAR(metrics.at("router_mass").value, 0.75, 1e-9);
  for (const auto& [name, measurement] : metrics) {
    EXPECT_EQ(measurement.n, 4096) << name;
    ASSERT_TRUE(measurement.low && measurement.high) << name;
    EXPECT_LE(*measurement.low, measurement.value + 1e-12) << name;
    EXPECT_GE(*measurement.high, measurement.value - 1e-12) << name;
  }
}

TEST(AccuracyMetrics, PerfectAgreementStillHasAnInterval) {
  AccuracySamples samples = invented(2048);
  samples.same_top.assign(2048, 1.0);
  const Measurement agreement = accuracy_metrics(samples, 256).at("top1_agreement");
  EXPECT_EQ(agreement.value, 1.0);
  EXPECT_LT(*agreement.low, 0.9999);
  EXPECT_GT(*agreement.low, 0.99);
}

TEST(AccuracyMetrics, TooFewPositionsHaveNoTail) {
  EXPECT_FALSE(accuracy_metrics(invented(320), 32).contains("kl_p99"));
  EXPECT_TRUE(accuracy_metrics(invented(384), 32).contains("kl_p99"));
}

class TinyMoeAccuracy : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    checkpoint_ = open_checkpoint(source_dir() + "/engine/models/tiny-moe");
    const TokenSource source = calibration_tokens(*checkpoint_, "", 0);
    reference_ = new Reference(
        checkpoint_, ScoredText::of(source, 64, 800),
        {.threads = 0, .store_folder = {}, .build = "test", .on_progress = {}, .on_message = {}});
  }
  static void TearDownTestSuite() {
    delete reference_;
    reference_ = nullptr;
    checkpoint_.reset();
  }

  static AccuracyResult accuracy_of(const std::vector<std::pair<std::string, std::string>>& settings,
                                    int sequences = 8) {
    EngineOptions options;
    for (const auto& [knob, value] : settings) set_knob(options, knob, value);
    Engine engine(checkpoint_, options, forcing_limits(reference_->text(), sequences));
    return measure_accuracy(engine, *reference_,
                            {.base_groups = 1, .most_groups = 1, .undecided = {}, .on_progress = {}});
  }

  static std::shared_ptr<const Checkpoint> checkpoint_;
  static Reference* reference_;
};
std::shared_ptr<const Checkpoint> TinyMoeAccuracy::checkpoint_;
Reference* TinyMoeAccuracy::reference_ = nullptr;

TEST_F(TinyMoeAccuracy, TheReferenceAgreesWithItself) {
  const AccuracyResult same = accuracy_of({});
  ASSERT_EQ(same.wrong, "");
  EXPECT_EQ(same.metrics.at("kl_mean").value, 0.0);
  EXPECT_EQ(same.metrics.at("top1_agreement").value, 1.0);
  EXPECT_EQ(same.metrics.at("perplexity_ratio").value, 1.0);
  EXPECT_EQ(same.metrics.at("route_flip_rate").value, 0.0);
  EXPECT_NEAR(same.metrics.at("router_mass").value, 1.0, 1e-12);
  EXPECT_EQ(same.metrics.at("output_snr_db").value, 200.0);
}

// A token gets the same bits whether it steps alone or beside others: on a CPU nothing else would be an
// error, but the floor is what says so to whoever reads a report.
TEST_F(TinyMoeAccuracy, TheRunToRunFloorIsFarBelowEveryGate) {
  EXPECT_GE(reference_->floor_kl(), 0.0);
  EXPECT_LT(reference_->floor_kl(), 1e-6);
}

TEST_F(TinyMoeAccuracy, FewerExpertsAreFurtherAway) {
  double last_kl = 0.0;
  double last_mass = 1.0;
  for (const char* top_k : {"7", "6", "4", "2"}) {
    const AccuracyResult result = accuracy_of({{"top_k", top_k}});
    EXPECT_GT(result.metrics.at("kl_mean").value, last_kl) << top_k;
    EXPECT_LT(result.metrics.at("router_mass").value, last_mass) << top_k;
    EXPECT_LT(result.metrics.at("route_flip_rate").value, 0.5) << top_k;
    last_kl = result.metrics.at("kl_mean").value;
    last_mass = result.metrics.at("router_mass").value;
  }
  EXPECT_GT(last_kl, 0.1);
}

TEST_F(TinyMoeAccuracy, WhereExpertsLieChangesNothing) {
  const AccuracyResult cached = accuracy_of({{"expert_cache", "0.25"}});
  EXPECT_EQ(cached.metrics.at("kl_mean").value, 0.0);
  EXPECT_EQ(cached.metrics.at("output_snr_db").value, 200.0);
}

TEST_F(TinyMoeAccuracy, WindowsAloneScoreAsWindowsSideBySide) {
  const AccuracyResult side_by_side = accuracy_of({{"expert_quant", "int4"}});
  const AccuracyResult alone = accuracy_of({{"expert_quant", "int4"}}, 1);
  EXPECT_NEAR(alone.metrics.at("kl_mean").value, side_by_side.metrics.at("kl_mean").value, 1e-6);
  EXPECT_EQ(alone.metrics.at("route_flip_rate").value, side_by_side.metrics.at("route_flip_rate").value);
  EXPECT_GT(alone.metrics.at("kl_mean").value, 0.001);
}

TEST_F(TinyMoeAccuracy, MorePositionsAreScoredOnlyWhileUndecided) {
  EngineOptions options;
  Engine engine(checkpoint_, options, forcing_limits(reference_->text(), 8));
  const int groups = reference_->text().groups();
  ASSERT_GE(groups, 2);
  const auto positions = [&](bool undecided) {
    const AccuracyPlan plan{.base_groups = 1,
                            .most_groups = groups,
                            .undecided = [&](const Metrics&) { return undecided; },
                            .on_progress = {}};
    return measure_accuracy(engine, *reference_, plan).metrics.at("kl_mean").n;
  };
  EXPECT_EQ(positions(false), reference_->text().positions_per_group());
  EXPECT_EQ(positions(true), groups * reference_->text().positions_per_group());
}

TEST_F(TinyMoeAccuracy, StoredReferencesGiveTheSameNumbers) {
  const TemporaryDirectory folder;
  const TokenSource source = calibration_tokens(*checkpoint_, "", 0);
  const auto reference = [&](const std::string& build) {
    return Reference(
        checkpoint_, ScoredText::of(source, 64, 384),
        {.threads = 0, .store_folder = folder.path(), .build = build, .on_progress = {}, .on_message = {}});
  };
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(folder.path()), {}); };
  Reference computed = reference("a");
  computed.group(0);
  EXPECT_EQ(files(), 1);
  Reference stored = reference("a");
  EXPECT_TRUE(std::ranges::equal(stored.group(0).logits, computed.group(0).logits));
  EXPECT_TRUE(std::ranges::equal(stored.group(0).expert_ids, computed.group(0).expert_ids));
  EXPECT_EQ(files(), 1);
  reference("b").group(0);
  EXPECT_EQ(files(), 2) << "another build may round differently";
}

}  // namespace
}  // namespace moetune
