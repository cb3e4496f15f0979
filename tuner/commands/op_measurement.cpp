#include "tuner/commands/op_measurement.h"

namespace moetune {

OpShares shares_of(const OpTiming& timing, const OpRates& rates) {
  OpShares shares{.microseconds = median(timing.microseconds),
                  .interval = median_interval(timing.microseconds),
                  .read_share = 0.0,
                  .tensor_share = {}};
  shares.read_share = timing.cost.bytes / (1e-6 * shares.microseconds * 1e9 * rates.read_gb_per_s);
  if (rates.tensor_flops > 0.0)
    shares.tensor_share = timing.cost.flops / (1e-6 * shares.microseconds * rates.tensor_flops);
  return shares;
}

bool is_in_cache(const OpShares& shares) { return shares.read_share > 1.0; }

}  // namespace moetune
