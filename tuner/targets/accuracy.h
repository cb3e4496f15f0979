// How far a configuration's answers are from the reference's: kl_mean, kl_p99, top1_agreement,
// perplexity_ratio, route_flip_rate, router_mass, output_snr_db. Start at measure_accuracy().
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tuner/measurement.h"
#include "tuner/targets/reference.h"

namespace moetune {

// Values per scored position, in the order they were scored: windows one after the other.
struct AccuracySamples {
  std::vector<double> kl;               // nats
  std::vector<double> same_top;         // 1 where the most likely token is the reference's
  std::vector<double> surprise_change;  // nats, at the token that really follows
  std::vector<double> reference_power;
  std::vector<double> difference_power;
  std::vector<double> flipped_experts;  // chosen ones that the reference did not choose, over all layers
  std::vector<double> chosen_experts;
  std::vector<double> router_mass;  // mean over layers

  std::int64_t size() const { return std::ssize(kl); }
};

// Metrics of the samples; scored: positions per window, so that no block of neighbours spans two windows.
Metrics accuracy_metrics(const AccuracySamples& samples, std::int64_t scored);

struct AccuracyResult {
  Metrics metrics;    // empty when wrong
  std::string wrong;  // what is wrong with the output, in words; empty: nothing
  AccuracySamples samples;
};

struct AccuracyPlan {
  int base_groups = 1;  // always scored
  int most_groups = 1;  // more are scored while undecided() says so
  // Is it still open on which side of a gate these metrics lie? Asked after each group from base_groups on.
  std::function<bool(const Metrics&)> undecided;
  std::function<void(const std::string& words)> on_progress;  // may be empty
};

// engine: the configuration under test, made with forcing_limits(reference.text(), ...).
AccuracyResult measure_accuracy(Engine& engine, Reference& reference, const AccuracyPlan& plan);

}  // namespace moetune
