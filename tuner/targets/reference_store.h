// Reference logits and routing on disk, so that the reference is computed once per model and not once per
// run. One file per group of windows below $XDG_CACHE_HOME/moetune/reference (or ~/.cache), 2 GiB at most:
// the files that were not used for longest leave first. A file that is damaged or of another build counts as
// absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace moetune {

struct ReferenceShape {
  std::int64_t positions = 0;  // scored ones, of one group
  std::int64_t vocabulary = 0;
  std::int64_t moe_layers = 0;
  std::int64_t k = 0;  // the model's own top-k

  friend bool operator==(const ReferenceShape&, const ReferenceShape&) = default;
};

// What the reference did at every scored position of a group.
struct ReferenceGroup {
  ReferenceShape shape;
  std::span<float> logits;             // (positions, vocabulary)
  std::span<std::int32_t> expert_ids;  // (positions, moe_layers, k), best first
  std::span<float> expert_weights;     // the same shape
  std::shared_ptr<std::byte> image;    // owns all three: the file as it is or will be

  static ReferenceGroup blank(const ReferenceShape& shape);  // zeros, to be filled
};

class ReferenceStore {
 public:
  static constexpr std::int64_t capacity_bytes = std::int64_t{2} << 30;

  // folder: where files live; empty: nothing is kept.
  explicit ReferenceStore(std::string folder);
  // The user's cache folder; empty when the environment names none.
  static std::string default_folder();

  std::optional<ReferenceGroup> read(const std::string& key, const ReferenceShape& expected) const;

  // Writes it and makes room for it. Empty when it is stored, otherwise why not: a reference that cannot be
  // kept is computed again next time, which is worth a message and not a failure.
  std::string write(const std::string& key, const ReferenceGroup& group) const;

 private:
  std::string file_of(const std::string& key) const { return folder_ + "/" + key + ".bin"; }
  void make_room(std::int64_t bytes) const;

  std::string folder_;
};

}  // namespace moetune
