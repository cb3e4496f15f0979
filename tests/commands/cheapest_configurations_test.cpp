// Qwen3-30B-A3B with 32 sequences in 24 GiB, by bytes alone: 30 GB over the link in every step as it ships.
#include "tuner/commands/cheapest_configurations.h"

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "tuner/commands/study_memory.h"
#include "tuner/commands/study_space.h"
#include "tuner/targets/engine_target.h"

namespace moetune {
namespace {

class Cheapest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (MOETUNE_HAS_CUDA == 0) GTEST_SKIP() << "a build without GPU code has no space of a GPU";
    study.model = open_checkpoint("qwen3-30b-a3b:fold=16")->spec();  // or this machine's memory would decide
    study.workload = workload_named("throughput");
    study.device = DeviceKind::cuda;
    study.hardware.device_bytes = std::int64_t{24} << 30;
    study.hardware.memory_gb_per_s = 4460.0;
    study.hardware.link_gb_per_s = 55.0;
    study.kind_of_objection = [model = study.model, workload = study.workload,
                               bytes = study.hardware.device_bytes](const Configuration& configuration) {
      return objection_of(model, workload, options_of(configuration, DeviceKind::cuda, 0), bytes);
    };
    study.objection = study.kind_of_objection;
    study = for_launch(std::move(study));
    space = space_for(study, "default");
    legal = legal_configurations(space, study.kind_of_objection);
    usual = default_configuration(study, space);
  }
  std::vector<Configuration> cheapest(const char* gate) const {
    return cheapest_configurations(study, space, legal, usual, gate_named(gate), 4);
  }

  Study study;
  SearchSpace space;
  LegalSet legal;
  Configuration usual;
};

TEST_F(Cheapest, KeepsEveryExpertAndTheLevelWhereAccuracyMayGo) {
  const std::vector<Configuration> next = cheapest("none");
  ASSERT_EQ(next.size(), 4U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(next[i].values.at("expert_quant").starts_with("int4")) << next[i].key();
    EXPECT_EQ(next[i].values.at("expert_cache"), "1") << next[i].key();
    EXPECT_EQ(next[i].values.at("top_k"), "8") << next[i].key();
  }
}

TEST_F(Cheapest, WhatMayBeRecommendedComesFirst) {
  const std::vector<Configuration> next = cheapest("int8");
  ASSERT_EQ(next.size(), 4U);
  for (std::size_t i = 0; i < next.size(); ++i) {
    EXPECT_EQ(next[i].values.at("expert_quant") == "checkpoint", i < 2)
        << next[i].key() << ": a quarter of the experts fits as they ship, with either router";
    EXPECT_EQ(next[i].values.at("top_k"), "8") << next[i].key();
  }
}

TEST_F(Cheapest, NothingIsKnownOfAMadeUpStudy) {
  study.made_up = true;
  EXPECT_TRUE(cheapest("none").empty());
}

}  // namespace
}  // namespace moetune
