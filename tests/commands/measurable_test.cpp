// Which metrics a study can have no value of.
#include "tuner/commands/measurable.h"

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

Study study_of(const std::string& workload) {
  Study study;
  study.model.name = "a model";
  study.model.layers = 1;
  study.model.moe_layers = {true};
  study.workload = workload_named(workload);
  study.conditions = nlohmann::json::object();
  return study;
}

std::string reason(const std::string& metric, const Study& study) {
  return why_not_measurable(metric, study).reason;
}

TEST(Measurable, WhatEveryStudyHas) {
  for (const char* metric :
       {"tpot_ms", "ttft_ms", "tokens_per_s", "kl_mean", "router_mass", "device_bytes", "tax_share"})
    for (const std::string& workload : workload_names())
      EXPECT_EQ(reason(metric, study_of(workload)), "") << metric << " of " << workload;
}

TEST(Measurable, WhatDependsOnTheWorkload) {
  EXPECT_EQ(reason("task_ms", study_of("agent")), "");
  EXPECT_TRUE(has_text(reason("task_ms", study_of("chat")), "one round"));
  EXPECT_EQ(reason("queue_ms", study_of("throughput")), "");
  EXPECT_TRUE(has_text(reason("queue_ms", study_of("chat")), "one request at a time"));
  EXPECT_EQ(reason("ttft_whole_ms", study_of("completion")), "");
  EXPECT_TRUE(has_text(reason("ttft_whole_ms", study_of("chat")), "while it is typed"));
  Study none = study_of("chat");
  none.workload.slo = {};
  EXPECT_TRUE(has_text(reason("goodput_per_s", none), "no service level"));
  EXPECT_TRUE(has_text(reason("goodput_per_s", study_of("agent")), "is about tasks"));
  EXPECT_TRUE(has_text(reason("task_goodput_per_s", study_of("chat")), "is about requests"));
  EXPECT_EQ(reason("task_goodput_per_s", study_of("agent")), "");
  none.workload.output_tokens = 1;
  EXPECT_TRUE(has_text(reason("tpot_ms", none), "one token long"));
}

TEST(Measurable, WhatDependsOnMachineAndModel) {
  Study study = study_of("agent");
  EXPECT_TRUE(has_text(reason("usd_per_mtok", study), "no price"));
  study.conditions["usd_per_hour"] = 2.0;
  EXPECT_EQ(reason("usd_per_mtok", study), "");
  EXPECT_TRUE(has_text(reason("joules_per_token", study), "energy"));
  study.counts_energy = true;
  EXPECT_EQ(reason("joules_per_token", study), "");
  study.device = DeviceKind::cuda;
  for (const char* metric : {"task_tax_ms", "tax_share", "task_goodput_per_s"})
    EXPECT_NE(reason(metric, study), "") << metric;
  study.model.is_synthetic = true;
  EXPECT_TRUE(has_text(reason("kl_mean", study), "synthetic weights"));
  study.model.moe_layers = {false};
  EXPECT_TRUE(has_text(reason("router_mass", study), "routes nothing"));
}

TEST(Measurable, TheFirstWithoutAValueIsNamed) {
  const Study study = study_of("chat");
  require_measurable("tpot_ms,kl_mean,device_bytes", study);
  EXPECT_TRUE(has_text(message_of<InputError>([&] { require_measurable("tpot_ms,usd_per_mtok", study); }),
                       "--objective: 'usd_per_mtok' is not known"));
}

}  // namespace
}  // namespace moetune
