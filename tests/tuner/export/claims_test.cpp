#include "tuner/export/claims.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/tuner/export/support.h"
#include "tuner/export/help_check.h"

namespace moetune {
namespace {

Explanation explained(const std::string& flag) {
  return explain(flag, read_claims(source_dir() + "/reports/claims.json"), server_tables());
}

TEST(Claims, ARumourIsCalledOne) {
  for (const char* const spelling :
       {"--enable-expert-cache", "enable-expert-cache", "--enable_expert_cache"}) {
    const std::string text = explanation_text(explained(spelling));
    EXPECT_TRUE(has_text(text, "false: No version of vLLM has it"));
    EXPECT_TRUE(has_text(text, "'moetune export' cannot print it"));
    EXPECT_TRUE(has_text(text, "lists of flags are not complete"));
  }
}

TEST(Claims, ARealFlagPraisedForTheWrongReason) {
  const std::string text = explanation_text(explained("--gpu-memory-utilization"));
  EXPECT_TRUE(has_text(text, "vLLM: accepted; says gpu_memory_fraction"));
  EXPECT_TRUE(has_text(text, "0.85 lowers it"));
}

TEST(Claims, ValuesShortFormsAndOtherServers) {
  EXPECT_TRUE(has_text(explanation_text(explained("--kv-cache-dtype fp16")), "'fp16' is none of them"));
  EXPECT_TRUE(has_text(explanation_text(explained("-tp")), "vLLM: short for --tensor-parallel-size"));
  const std::string tp_size = explanation_text(explained("--tp-size"));
  EXPECT_TRUE(has_text(tp_size, "SGLang: accepted; says tensor_parallel"));
  EXPECT_TRUE(has_text(tp_size, "TensorRT-LLM: accepted; says tensor_parallel"));
  EXPECT_EQ(tp_size.find("vLLM: accepted"), std::string::npos);
  EXPECT_TRUE(has_text(explanation_text(explained("--swap-space")), "vLLM: removed"));
  EXPECT_THROW(explained("--"), InputError);
}

TEST(Claims, EveryVerdictNamesAFactAndASourceUnlessUnchecked) {
  for (const Claim& claim : read_claims(source_dir() + "/reports/claims.json")) {
    EXPECT_FALSE(claim.fact.empty()) << claim.id;
    EXPECT_EQ(claim.source.empty(), claim.verdict == "unchecked") << claim.id;
  }
}

TEST(HelpCheck, MarksWhatTheServersHelpDoesNotHold) {
  EXPECT_EQ(flags_in_help("usage: x [-h] [--max-num-seqs N]\n  --tp_size, --x-y=1 --- a--b --"),
            (std::set<std::string>{"--max-num-seqs", "--tp-size", "--x-y"}));
  ServerCommand command = exported("vllm", gpu_profile({{"cuda_graph", "off"}}));
  const HelpCheck result =
      check_against(command, flags_in_help("--max-num-seqs --max_model_len --gpu-memory-utilization"));
  EXPECT_EQ(result.accepted, 3U);
  EXPECT_EQ(result.refused, 1U);
  const auto eager = std::ranges::find(command.lines, "cuda_graphs", &ExportLine::setting);
  ASSERT_NE(eager, command.lines.end());
  EXPECT_EQ(eager->checked, "--enforce-eager is NOT in the server's --help");
}

}  // namespace
}  // namespace moetune
