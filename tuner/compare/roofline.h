// How long a decoding step would take on a box nobody measured: the bytes it has to move over the rates of
// that box, divided by the share of such a floor that was reached where it was measured. A roofline knows
// memory and link only: no launches, no arithmetic, no communication; so its error on trials it was not
// fitted to is always said beside it. Start at fit_roofline() and predicted_ms().
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace moetune {

// What one decoding step has to move.
struct StepBytes {
  double memory = 0.0;  // read from device memory: weights, resident experts, KV cache
  double link = 0.0;    // missing experts, brought in from the host
};

// Rates that a perfect implementation would reach, in GB/s (powers of ten).
struct BoxRates {
  double memory_gb_per_s = 0.0;
  double link_gb_per_s = 0.0;  // 0: there is no link; what is missing comes from the same memory
};

// The floor in milliseconds: memory and link one after the other, since nothing is known of their overlap.
double floor_ms(const StepBytes& bytes, const BoxRates& rates);

// One measured trial.
struct RooflinePoint {
  std::string kind;       // of the number format: formats differ in the share they reach
  double floor_ms = 0.0;  // on the box where it was measured
  double measured_ms = 0.0;
};

struct Roofline {
  std::map<std::string, double> share;  // reached, by kind: floor over measured, the median
  double share_of_all = 0.0;            // for kinds that were not measured
  // Fitted to every other trial, judged on those between: |predicted / measured - 1|. 0 trials: too few to
  // judge.
  std::size_t held_out = 0;
  double median_error = 0.0;
  double worst_error = 0.0;
};

// Empty: no trial to go by.
std::optional<Roofline> fit_roofline(std::span<const RooflinePoint> points);

double predicted_ms(const Roofline& roofline, const std::string& kind, double floor);

}  // namespace moetune
