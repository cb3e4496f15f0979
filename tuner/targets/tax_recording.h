// The runs behind a tax: without recording and with it, in turns where one process can do both. Start at
// take_on_host() and take_on_device().
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/engine.h"
#include "engine/sync_tax/step_recorder.h"
#include "engine/tokenizer.h"
#include "tuner/targets/tax_runs.h"

namespace moetune {

// One run after another of one workload, recorded or not.
class Recording {
 public:
  Recording(Engine& engine, const Workload& workload, const TokenSource& text)
      : engine_(engine), workload_(workload), text_(text) {}
  ~Recording() { engine_.record_steps(nullptr); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // host: what the host did is added there.
  void run(StepRecorder& recorder, std::uint64_t number, HostUse* host = nullptr);

 private:
  void run_watched(std::uint64_t number, HostUse& host);

  Engine& engine_;
  const Workload& workload_;
  const TokenSource& text_;
};

struct Taken {
  TaxRuns plain;
  TaxRuns recorded;
  TaxResult result;  // cost, counts and the last run
};

// How long to go on, and what to say meanwhile.
struct TurnLimits {
  std::uint64_t first_run = 0;  // number of the first run's workload
  int rounds = 1;
  double seconds = 0.0;
  std::size_t fewest_turns = kFewestTurns;
  std::function<void(const std::string& words)> progress{};
};

// On a CPU: without recording, with it, and with records that cost twice as much, in turns.
Taken take_on_host(Recording& recording, const TurnLimits& limits);

// On a GPU, before anything of the process is recorded.
PlainRuns take_plain(Recording& recording, const TurnLimits& limits);
// The same runs again, behind one in which graphs are captured with labels. Throws std::runtime_error where
// records were lost.
Taken take_on_device(Recording& recording, const TurnLimits& limits, const PlainRuns& plain);

}  // namespace moetune
