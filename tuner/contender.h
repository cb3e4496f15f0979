// One measured configuration as choose() weighs it, and the words about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/choose.h"
#include "tuner/final_round.h"
#include "tuner/statistics.h"

namespace moetune {

struct Contender {
  const Trial* trial = nullptr;
  Metrics metrics;                   // the trial's, times from the final round where it was in it
  double value = 0.0;                // of the first objective, to be minimised
  double search_value = 0.0;         // the same as the search measured it
  std::optional<Interval> interval;  // of it, to be minimised; empty: too few samples to have one
  int changes = 0;                   // parameters whose value is not the default's
  bool is_default = false;
  bool accurate_enough = false;
  GateJudgement gate;
  std::optional<bool> keeps_slo;     // empty: no service level, or not known
  bool acceptable = false;           // both; see rule 2 of choose()
  bool measured_again = false;       // in the final round, without a failure
  std::optional<Measurement> ratio;  // to the default's value, paired within the passes of the final round
  std::string failure;               // why it could not be measured again
};

// All trials that count, in the order of the log. round: nullptr: as the search measured them.
std::vector<Contender> contenders(const ChoiceInput& input, const FinalRound* round);

// a is better than b beyond doubt: its interval as a whole. False when one has no interval.
bool clears(const Contender& a, const Contender& b);
// The same by the paired ratio to the default.
bool clears_default(const Contender& contender, const Contender& default_contender,
                    const Objective& objective);
// "14 % under (95 % interval 12 % to 16 %)", "1.0 % under (95 % interval 2.1 % under to 0.3 % over)": a
// paired ratio.
// reference: what it is under or over, put before the interval; may be empty.
std::string ratio_text(const Measurement& ratio, const std::string& reference = "");

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
// What the service level is about, in milliseconds; empty: not measured, or too few samples for a p99.
std::optional<double> value_for(const Slo& slo, const Metrics& metrics);
// The same; where there are too few samples for a p99, the median in its place. Empty: not measured.
std::optional<double> least_value_for(const Slo& slo, const Metrics& metrics);
// Empty: not known. A level of a p99 that is not known is missed all the same where the median, by the lower
// end of its interval, is above it. (Of runs, the median of their means: a p99 below that would need the
// slowest 1 % to pull most means beyond the limit.)
std::optional<bool> keeps(const Slo& slo, const Metrics& metrics);
// "meets the service level tpot_p99 <= 50 ms: 0.61 ms", "misses the service level
// tpot_p99 <= 0.5 ms: its median alone is 0.61 ms"; empty without a service level.
std::string slo_text(const Contender& contender, const ChoiceInput& input);

}  // namespace moetune
