// Runs workloads on the embedded model, on the CPU, each on an engine of its own.
#pragma once

#include <cstdint>
#include <memory>

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "engine/engine.h"
#include "engine/tokenizer.h"
#include "tests/support/source_dir.h"
#include "tuner/targets/workload_run.h"

namespace moetune::testing {

// Counted instead of timed: a busy machine changes nothing.
inline double one_ms_per_token(int tokens) { return tokens; }

class TinyMoeRuns : public ::testing::Test {
 protected:
  RunTimes run(const Workload& workload, std::uint64_t number = 0, const EngineOptions& options = {}) {
    Engine engine(checkpoint_, options, limits_of(workload, options));
    RunTimes times = run_workload(engine, workload, text_, number, one_ms_per_token);
    tokens_ = engine.stats().tokens;
    device_bytes_ = engine.stats().device_bytes;
    return times;
  }

  std::shared_ptr<const Checkpoint> checkpoint_ = open_checkpoint(source_dir() + "/engine/models/tiny-moe");
  TokenSource text_ = calibration_tokens(*checkpoint_, "", 0);
  // Of the last run.
  std::int64_t tokens_ = 0;  // that went through the layers
  std::int64_t device_bytes_ = 0;
};

}  // namespace moetune::testing
