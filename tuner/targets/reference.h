// What accuracy is compared with: the checkpoint in its own number types, native top-k, no rerouting, f32 KV,
// one rank, every expert resident. Start at Reference::group(): from the store when it is there, otherwise
// computed and stored.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tuner/targets/reference_store.h"
#include "tuner/targets/scored_text.h"

namespace moetune {

struct ReferenceSettings {
  DeviceKind device = DeviceKind::cpu;
  int threads = 0;           // 0: all cores; changes no result
  std::string store_folder;  // empty: nothing is kept on disk
  std::string build;         // of this program, and the GPU's name: others may round differently
  std::function<void(const std::string& words)> on_progress;  // may be empty
  std::function<void(const std::string& line)> on_message;    // may be empty
};

class Reference {
 public:
  Reference(std::shared_ptr<const Checkpoint> checkpoint, ScoredText text, ReferenceSettings settings);

  const ScoredText& text() const { return text_; }
  const ReferenceGroup& group(int number);

  // Run-to-run floor: KL of the reference against itself, stepping one window at a time instead of eight side
  // by side. Over the first window of group 0; nats.
  double floor_kl();

  // The options every comparison is made with.
  static EngineOptions options(DeviceKind device, int threads);

 private:
  Engine make_engine(int side_by_side) const;
  ReferenceGroup compute(int number) const;
  std::string key_of(int number) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  ScoredText text_;
  ReferenceSettings settings_;
  std::vector<std::optional<ReferenceGroup>> groups_;
  std::optional<double> floor_kl_;
  bool said_that_nothing_is_kept_ = false;
};

// Names this build for the key of stored references: the commit, or a checksum of the program where the tree
// had changes.
std::string reference_build_key();

}  // namespace moetune
