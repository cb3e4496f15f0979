// Boxes and models side by side: every figure of `moetune compare`, gathered once; comparison_text.h lays it
// out. Only profiles of one gate, one workload and one service level are comparable. Start at differences()
// and compared().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/facts/launch_profile.h"
#include "tuner/compare/economics.h"
#include "tuner/price_list.h"
#include "tuner/trial.h"

namespace moetune {

// One configuration of a box, with the money of it.
struct ComparedPoint {
  Configuration configuration;
  Metrics metrics;
  std::optional<bool> keeps_slo;            // empty: no service level, or not known
  std::optional<Measurement> usd_per_mtok;  // rented and never idle
};

struct ComparedBox {
  std::string box;  // "NVIDIA H200 x1, limited to 24.0 GiB", "cpu: Intel(R) Xeon(R) Processor"
  std::string model;
  std::string from;  // file or catalogue name
  bool is_predicted = false;
  bool is_fastest_possible = false;  // predicted by a bound: slower for sure, who knows by how much
  bool is_measured_beside = false;   // predicted, and another column has it measured: no money is made of it
  std::string measured_as;         // predicted, though a registered profile has it measured; empty: none has
  std::string remark;              // how it was predicted, or what its numbers do not hold; empty: nothing
  std::int64_t missing_bytes = 0;  // above 0: no configuration fits, and there are no points
  ComparedPoint recommended;
  std::vector<ComparedPoint> front;  // accurate enough for the gate
  std::string accuracy;              // in words
  BoxPrice price;
  double idle_watts = 0.0;  // 0: not known

  // Energy and money; empty: something they need is not known.
  std::optional<double> joules_per_mtok;
  std::optional<double> own_usd_per_hour;  // busy
  std::optional<double> own_usd_per_mtok;  // never idle
  std::optional<double> break_even_busy_share;
  bool renting_always_cheaper = false;            // there is no load at which owning pays
  std::optional<double> break_even_tokens_per_s;  // against the box that is cheapest by the hour
  bool is_cheapest_by_the_hour = false;           // of the measured boxes, where one of them has a rent
  bool is_cheaper_by_the_hour = false;            // predicted, and rented for less than that one
};

struct Money {
  std::optional<double> usd_per_kwh;
  double years = 3.0;  // that a bought box is used
};

struct Comparison {
  std::string gate;
  Workload workload;  // with its service level
  Money money;
  std::vector<ComparedBox> boxes;
};

// What stands in the way of comparing: "gate: int8 (a.json), lossless (b.json)"; empty: nothing does.
std::vector<std::string> differences(std::span<const LaunchProfile> profiles,
                                     std::span<const std::string> names);

// gpu_bytes: memory that such a GPU comes with; a run that had much less of it was limited (--device-memory,
// or others were there), which is then part of the name. 0: not known.
std::string box_name(const HardwareFingerprint& hardware, std::int64_t gpu_bytes = 0);

// One box of a comparison as its profile has it; the money is left to settle().
ComparedBox compared(const LaunchProfile& profile, const std::string& from, const BoxPrice& price,
                     std::int64_t gpu_bytes = 0);

// Fills in energy, money and break-even loads of every box. InputError where a figure comes to no number: one
// of a profile or of a price cannot be one that was measured.
void settle(Comparison& comparison);

}  // namespace moetune
