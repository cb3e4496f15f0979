// Fuzzes the readers of what other processes wrote: trial logs and worker messages. Any bytes give trials,
// messages or an InputError. A fuzzer does not guess checksums, so every input is also read with its lines'
// checksums put right.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/checksum.h"
#include "tuner/final_round.h"
#include "tuner/objective.h"
#include "tuner/problems.h"
#include "tuner/trial_log.h"
#include "tuner/worker_protocol.h"

namespace {
using namespace moetune;

// abort() rather than assert(): a release build must find it too.
void insist(bool holds) {
  if (!holds) std::abort();
}

// Read on after the first mistake, as validate does: there is one exactly where the plain reading ended.
void check_problems(std::string_view text, bool is_good) {
  const ProblemList problems;
  attempt([&] { parse_trial_log(text, "trials.jsonl"); });
  insist(problems.messages().empty() == is_good);
}

// What stands in a log may be in an order that no search makes: refused, but not by the reader.
void check_final_rounds(const TrialLogContents& contents) {
  try {
    for (const Trial& trial : contents.measured_again) {
      final_round(trial.turn->finalists, trial.turn->after, contents.measured_again,
                  objectives_named("tpot_ms").front());
      next_turn(trial.turn->finalists, trial.turn->after, contents.measured_again, {});
    }
  } catch (const InputError&) {
  }
}

void check_log(std::string_view text) {
  bool is_good = true;
  try {
    const TrialLogContents contents = parse_trial_log(text, "trials.jsonl");
    insist(contents.intact_bytes <= text.size());
    insist(contents.torn.empty() == (contents.intact_bytes == text.size()));
    std::string again;
    for (const Trial& trial : contents.trials) again += to_log_line(trial);
    const TrialLogContents back = parse_trial_log(again, "again");
    insist(back.trials.size() == contents.trials.size() && back.torn.empty());
    for (std::size_t i = 0; i < back.trials.size(); ++i)
      insist(to_log_line(back.trials[i]) == to_log_line(contents.trials[i]));
    check_final_rounds(contents);
  } catch (const InputError&) {
    is_good = false;
  }
  check_problems(text, is_good);
}

void check_messages(std::string_view line) {
  try {
    const FromWorker message = from_worker_from_line(line);
    insist(from_worker_from_line(to_line(message)).index() == message.index());
  } catch (const InputError&) {
  }
  try {
    const ToWorker message = to_worker_from_line(line);
    insist(to_worker_from_line(to_line(message)).index() == message.index());
  } catch (const InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_log(text);
  std::string repaired;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, end - start);
    check_messages(line);
    // As a line of a log it lacks the checksum: {...} becomes {...,"checksum":"0a1b2c3d"}
    const std::string_view body = line.substr(0, line.empty() ? 0 : line.size() - 1);
    repaired += fmt::format("{},\"checksum\":\"{:08x}\"}}\n", body, crc32(body));
    start = end + 1;
  }
  check_log(repaired);
  return 0;
}
