// Does a profile still speak of this box, and if not of this one, of one how much like it? Its fingerprint is
// compared field by field with what is here now; the fields that differ put it on a rung of a ladder, and
// each rung says how far to trust it. A pure function. Start at staleness_of().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/facts/launch_profile.h"

namespace moetune {

// From the best match to none. The worst field decides.
enum class Rung : std::uint8_t {
  same_box,        // nothing differs
  other_rate,      // the same parts, but memory or link are read at another rate
  other_software,  // driver, CUDA, build or operating system
  other_size,  // the same kind of device, but another number of them, power limit, memory or number of cores
  other_device,  // another GPU or processor
  other_model,   // other weights or another model: nothing carries over
};
std::string_view name_of(Rung rung);  // "same box", "other software", ...

struct FieldDifference {
  std::string field;  // as in hardware.json: "driver", "gpu_count", "model_hash"
  std::string then;   // in the profile; "not known" where it does not say
  std::string now;
  Rung rung = Rung::same_box;  // that this field alone puts the profile on
};

// Who wants to know: somebody who is about to use the profile, or a check that measured it again.
enum class Asker : std::uint8_t { user, check };

struct Staleness {
  Rung rung = Rung::same_box;
  std::vector<FieldDifference> differences;  // the weightiest first

  bool has(std::string_view field) const;
  // "driver 570.86 (CUDA 12.8) then, 580.95 (CUDA 13.0) now; build ..."; empty: nothing differs.
  // Only fields that alone would put it on that rung or a worse one.
  std::string differences_text(Rung least = Rung::same_box) const;
  // Which rung, what differs, and how far to trust the profile: one or two sentences.
  std::string words(Asker asker = Asker::user) const;
};

// What there is now. model_hash: empty where no model is open: then only the box is compared.
struct PresentBox {
  HardwareFingerprint hardware;
  std::string model_hash;
};

// Fields that only a GPU has are compared only where the profile or this box is one. Rates were measured, and
// differ from one minute to the next: only what is more than a fifth, and more than twice what the repeats of
// both probes differed by, counts.
Staleness staleness_of(const LaunchProfile& profile, const PresentBox& here);

// How far a profile on that rung may be trusted, in words.
std::string_view trust_text(Rung rung);

}  // namespace moetune
