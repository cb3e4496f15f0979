#include "tuner/commands/step_costs.h"

#include <array>
#include <bit>
#include <limits>

#include <Eigen/Dense>

namespace moetune {
namespace {

constexpr unsigned costs = 3;
constexpr double as_good = 1e-9;  // of the sum of squares: rounding

double squares(const Eigen::VectorXd& values) { return values.squaredNorm(); }

}  // namespace

// Three costs have eight sets of those that are not zero: each is solved, and the best that is legal is
// taken.
StepCosts fit_step_costs(std::span<const MeasuredSize> sizes) {
  const auto rows = static_cast<Eigen::Index>(sizes.size());
  Eigen::MatrixXd asked(rows, costs);
  Eigen::VectorXd extra(rows);
  for (Eigen::Index row = 0; row < rows; ++row) {
    const MeasuredSize& size = sizes[static_cast<std::size_t>(row)];
    asked.row(row) << 1.0, size.asked.misses, size.asked.missing_layers;
    extra(row) = size.extra_ms;
  }
  std::array<double, costs> best{};
  double best_error = squares(extra);
  const double tolerance = as_good * best_error;
  unsigned best_count = 0;
  for (unsigned set = 1; set < 1U << costs; ++set) {
    const auto count = static_cast<unsigned>(std::popcount(set));
    Eigen::MatrixXd some(rows, count);
    for (unsigned cost = 0, column = 0; cost < costs; ++cost)
      if ((set >> cost & 1U) != 0) some.col(column++) = asked.col(cost);
    const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> solver(some);
    if (solver.rank() < static_cast<Eigen::Index>(count)) continue;
    const Eigen::VectorXd solution = solver.solve(extra);
    if (solution.minCoeff() < 0.0) continue;
    const double error = squares(some * solution - extra);
    const bool is_better =
        error < best_error - tolerance || (error <= best_error + tolerance && count < best_count);
    if (!is_better) continue;
    best_error = error;
    best_count = count;
    best = {};
    for (unsigned cost = 0, column = 0; cost < costs; ++cost)
      if ((set >> cost & 1U) != 0) best[cost] = solution(column++);
  }
  return {best[0], best[1], best[2]};
}

}  // namespace moetune
