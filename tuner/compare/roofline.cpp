#include "tuner/compare/roofline.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace moetune {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

Roofline fitted(std::span<const RooflinePoint> points) {
  std::map<std::string, std::vector<double>> by_kind;
  std::vector<double> all;
  for (const RooflinePoint& point : points) {
    const double share = point.floor_ms / point.measured_ms;
    by_kind[point.kind].push_back(share);
    all.push_back(share);
  }
  Roofline roofline;
  for (const auto& [kind, shares] : by_kind) roofline.share[kind] = median(shares);
  roofline.share_of_all = median(all);
  return roofline;
}

}  // namespace

double floor_ms(const StepBytes& bytes, const BoxRates& rates) {
  const double link_rate = rates.link_gb_per_s > 0.0 ? rates.link_gb_per_s : rates.memory_gb_per_s;
  return bytes.memory / rates.memory_gb_per_s / 1e6 + bytes.link / link_rate / 1e6;
}

std::optional<Roofline> fit_roofline(std::span<const RooflinePoint> points) {
  std::vector<RooflinePoint> usable;
  for (const RooflinePoint& point : points)
    if (point.floor_ms > 0.0 && point.measured_ms > 0.0) usable.push_back(point);
  if (usable.empty()) return std::nullopt;
  Roofline roofline = fitted(usable);

  std::vector<RooflinePoint> seen;
  std::vector<RooflinePoint> held_out;
  for (std::size_t i = 0; i < usable.size(); ++i) (i % 2 == 0 ? seen : held_out).push_back(usable[i]);
  if (held_out.empty()) return roofline;
  const Roofline half = fitted(seen);
  std::vector<double> errors;
  for (const RooflinePoint& point : held_out)
    errors.push_back(std::abs(predicted_ms(half, point.kind, point.floor_ms) / point.measured_ms - 1.0));
  roofline.held_out = errors.size();
  roofline.worst_error = *std::max_element(errors.begin(), errors.end());
  roofline.median_error = median(std::move(errors));
  return roofline;
}

double predicted_ms(const Roofline& roofline, const std::string& kind, double floor) {
  const auto found = roofline.share.find(kind);
  return floor / (found == roofline.share.end() ? roofline.share_of_all : found->second);
}

}  // namespace moetune
