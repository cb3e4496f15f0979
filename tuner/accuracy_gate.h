// How far from the reference a configuration may be to be recommended. Start at gate_named() and judge().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tuner/trial.h"

namespace moetune {

// The int4 gate. Beyond it a point is worth nothing to anybody: hypervolume ends here.
inline constexpr double widest_gate_kl = 0.04;
inline constexpr double widest_gate_agreement = 0.93;

struct AccuracyGate {
  std::string name;              // lossless, int8, int4, none
  double most_kl = 0.0;          // kl_mean in nats
  double least_agreement = 0.0;  // top1_agreement, a share
  bool is_open = false;          // none: everything passes
};

std::span<const AccuracyGate> accuracy_gates();           // the strictest first
const AccuracyGate& gate_named(const std::string& name);  // throws InputError

enum class GateVerdict : std::uint8_t {
  met,
  missed,
  unknown,  // accuracy was not measured: synthetic weights, or a target that has none
};

struct GateJudgement {
  GateVerdict verdict = GateVerdict::unknown;
  // An interval of a metric reaches across its limit: more positions could turn the verdict.
  bool straddles = false;
  std::string words;  // "meets the int8 gate: KL 0.00812 <= 0.02, top-1 agreement 97.1 % >= 95 %"
};
GateJudgement judge(const Metrics& metrics, const AccuracyGate& gate);

// Synthetic weights have no accuracy: the stand-in output_snr_db is there and kl_mean is not.
bool is_synthetic(const Metrics& metrics);

}  // namespace moetune
