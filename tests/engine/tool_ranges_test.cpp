// What a profiler with NVTX sees of a run, by a tool that stands in for it
// (tests/kernels/support/fake_nvtx_tool.cpp).
#include "kernels/tool_ranges.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/option_rules.h"
#include "tests/support/beside_program.h"
#include "tests/support/golden.h"

namespace moetune::testing {
namespace {

// In a process of its own: NVTX looks for a tool once.
TEST(EngineRangesDeathTest, ShowPhasesLayersAndOps) {
#if !MOETUNE_HAS_CUDA
  GTEST_SKIP() << "this build has no CUDA, so no NVTX";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    setenv("NVTX_INJECTION64_PATH", beside_program("libfake_nvtx_tool.so").c_str(), 1);
    const Golden model = golden(golden_names().front());
    Engine engine(model.checkpoint, default_options(DeviceKind::cpu),
                  EngineLimits{.sequences = 1, .context_tokens = 8, .step_tokens = 4});
    engine.prefill(0, std::span(model.ids).first(4));
    const StepToken first{.id = model.ids[4], .sequence = 0, .position = 4};
    engine.decode({.first = {&first, 1}, .steps = 2});
    std::exit(0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0),
              "open moetune: load\n.*close\nopen moetune: prefill\n.*"
              "open moetune: layer 0\n.*open moetune: attention\n.*open moetune: router\n.*"
              "open moetune: gate_up\n.*close\nopen moetune: down_combine\n.*open moetune: layer 1\n.*"
              "open moetune: launch of step 0\n.*open moetune: launch of step 1\n.*open moetune: head\n.*"
              "open moetune: wait for the steps\nclose\n");
}

}  // namespace
}  // namespace moetune::testing
