// A searcher for tests of the loop around searchers: where it goes next depends on everything it was told, so
// a lost, doubled or changed tell shows in what it asks. It also repeats itself now and then, as evolution
// does.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tuner/counter_rng.h"
#include "tuner/searcher.h"

namespace moetune {

class WalkingSearcher : public Searcher {
 public:
  // The configurations it may ask for.
  WalkingSearcher(std::vector<Configuration> all, std::uint64_t seed) : all_(std::move(all)), seed_(seed) {}

  std::optional<Configuration> ask() override {
    ++asks_;
    if (told_.size() >= all_.size()) return std::nullopt;
    const CounterRng rng(seed_ ^ state_, RngStage::random_order, static_cast<std::uint32_t>(asks_));
    const std::uint64_t start = rng.below(all_.size(), 0);
    if (rng.below(4, 1) == 0) return all_[start];  // maybe an old one
    for (std::uint64_t i = 0; i < all_.size(); ++i) {
      const Configuration& next = all_[(start + i) % all_.size()];
      if (!told_.contains(next)) return next;
    }
    return std::nullopt;
  }

  void tell(const Trial& trial) override {
    told_.insert(trial.configuration);
    // Everything but times goes in, to the last bit of every metric.
    for (const char byte : trial.configuration.key() + trial.reason + std::string(name_of(trial.outcome)))
      mix(static_cast<unsigned char>(byte));
    for (const auto& [name, measurement] : trial.metrics) mix(std::hash<double>{}(measurement.value));
  }

 private:
  void mix(std::uint64_t value) { state_ = (state_ ^ value) * 0x100000001B3U; }

  std::vector<Configuration> all_;
  std::set<Configuration> told_;
  std::uint64_t seed_;
  std::uint64_t state_ = 0xCBF29CE484222325U;
  std::uint64_t asks_ = 0;
};

}  // namespace moetune
