// One measured configuration as choose() weighs it, and the words about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/choose.h"
#include "tuner/statistics.h"

namespace moetune {

struct Contender {
  const Trial* trial = nullptr;
  double value = 0.0;                // of the first objective, to be minimised
  std::optional<Interval> interval;  // of it, to be minimised; empty: too few samples to have one
  int changes = 0;                   // parameters whose value is not the default's
  bool is_default = false;
  bool accurate_enough = false;
  GateJudgement gate;
  std::optional<bool> keeps_slo;  // empty: no service level, or not known
  bool acceptable = false;        // both; see rule 2 of choose()
};

// All trials that count, in the order of the log.
std::vector<Contender> contenders(const ChoiceInput& input);

// a is better than b beyond doubt: its interval as a whole. False when one has no interval.
bool clears(const Contender& a, const Contender& b);

// "top_k 7, expert_quant int8", "the default configuration"
std::string changes_text(const Contender& contender, const Configuration& default_configuration);
// "0.410 ms per token (0.400-0.420)"
std::string measured_text(const Contender& contender, const Objective& objective);
// "18 % under", "2.3 % over", "as good as"
std::string difference_text(const Contender& contender, const Contender& other, const Objective& objective);
// The same as a judgement: "18 % better", "2.3 % worse", "equal"
std::string better_text(const Contender& contender, const Contender& other);
// "meets the int8 gate: ...", or why accuracy is not known
std::string gate_text(const Contender& contender, const ChoiceInput& input);
// Why it is not acceptable.
std::string rejection_text(const Contender& contender, const ChoiceInput& input);
// " Also: 12.1 MiB device_bytes (default 20.3 MiB)." for the objectives that neither
// the first nor the gate speak of.
std::string others_text(const Contender& contender, const Contender* default_contender,
                        const ChoiceInput& input);
// "meets the service level tpot_p99 <= 50 ms: 0.61 ms"; empty without a service level.
std::string slo_text(const Contender& contender, const ChoiceInput& input);

}  // namespace moetune
