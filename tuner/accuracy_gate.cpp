#include "tuner/accuracy_gate.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/metric_facts.h"

namespace moetune {
namespace {

const std::array<AccuracyGate, 4>& table() {
  static const std::array<AccuracyGate, 4> gates{{
      {"lossless", 0.002, 0.98, false},
      {"int8", 0.02, 0.95, false},
      {"int4", widest_gate_kl, widest_gate_agreement, false},
      {"none", 0.0, 0.0, true},
  }};
  return gates;
}

bool reaches_across(const Measurement& measurement, double limit) {
  return measurement.low && measurement.high && *measurement.low <= limit && limit <= *measurement.high &&
         *measurement.low < *measurement.high;
}

}  // namespace

std::span<const AccuracyGate> accuracy_gates() { return table(); }

const AccuracyGate& gate_named(const std::string& name) {
  std::string accepted;
  for (const AccuracyGate& gate : table()) {
    if (gate.name == name) return gate;
    accepted.append(accepted.empty() ? "" : ", ").append(gate.name);
  }
  throw InputError("--gate", "no gate named '" + name + "'", accepted);
}

GateJudgement judge(const Metrics& metrics, const AccuracyGate& gate) {
  const auto kl = metrics.find("kl_mean");
  const auto agreement = metrics.find("top1_agreement");
  const bool known = kl != metrics.end() && agreement != metrics.end();
  if (gate.is_open) {
    if (!known) return {GateVerdict::met, false, "no gate asked for; accuracy unknown"};
    return {
        GateVerdict::met, false,
        fmt::format("no gate asked for; KL {}, top-1 agreement {}", number_text("kl_mean", kl->second.value),
                    value_text("top1_agreement", agreement->second.value))};
  }
  if (!known)
    return {GateVerdict::unknown, false, "accuracy unknown: the " + gate.name + " gate cannot be judged"};

  const bool kl_met = kl->second.value <= gate.most_kl;
  const bool agreement_met = agreement->second.value >= gate.least_agreement;
  GateJudgement judgement;
  judgement.verdict = kl_met && agreement_met ? GateVerdict::met : GateVerdict::missed;
  judgement.straddles =
      reaches_across(kl->second, gate.most_kl) || reaches_across(agreement->second, gate.least_agreement);
  const std::string kl_words =
      fmt::format("KL {} {} {}", number_text("kl_mean", kl->second.value), kl_met ? "<=" : ">", gate.most_kl);
  const std::string agreement_words =
      fmt::format("top-1 agreement {} {} {:.0f} %", value_text("top1_agreement", agreement->second.value),
                  agreement_met ? ">=" : "<", 100.0 * gate.least_agreement);
  judgement.words =
      fmt::format("{} the {} gate: {}, {}", judgement.verdict == GateVerdict::met ? "meets" : "misses",
                  gate.name, kl_words, agreement_words);
  if (judgement.straddles) judgement.words += " (the interval reaches across the limit)";
  return judgement;
}

bool is_synthetic(const Metrics& metrics) {
  return metrics.contains("output_snr_db") && !metrics.contains("kl_mean");
}

}  // namespace moetune
