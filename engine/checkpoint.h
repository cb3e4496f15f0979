// A model that was opened: a Hugging Face checkpoint on disk (config.json, one or several safetensors files),
// or a preset, whose weights are generated and which has no tensors to view (engine/matrix_source.h loads
// from both). Opened once and shared; tensors are memory-mapped views, nothing is read before it is asked
// for. Start at open_checkpoint() in engine.h. Names of the tensors: engine/tensor_names.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/facts/model_spec.h"
#include "kernels/tensor.h"

namespace moetune {

struct Preset;  // engine/presets.h

class Checkpoint {
 public:
  // Reads headers and config, checks that every tensor the spec needs is there with the right shape and a
  // type we read (f32, f16, bf16). Throws InputError naming file, tensor or field, what is there and what is
  // accepted.
  explicit Checkpoint(const std::string& directory);
  explicit Checkpoint(const Preset& preset);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  const std::string& directory() const;  // empty: synthetic
  std::uint64_t seed() const;            // of generated weights
  const ModelSpec& spec() const;

  bool has(const std::string& tensor_name) const;
  // View into the mapped file (read-only by contract), with the shape and type on disk. Throws InputError
  // when missing.
  Tensor tensor(const std::string& tensor_name) const;
  // The same with its shape checked.
  Tensor tensor(const std::string& tensor_name, std::initializer_list<std::int64_t> shape) const;

  // Where a tensor's bytes lie, for reading experts on demand without keeping the mapping's pages.
  struct Extent {
    std::string file;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
  };
  Extent extent(const std::string& tensor_name) const;

  // One routed expert of a layer that routes, however the file stores it (a tensor per matrix, or all experts
  // of the layer in two tensors). The bytes of each matrix are contiguous in view and file alike. All routed
  // experts of a checkpoint have one type, spec().checkpoint_type.
  struct Matrix {
    Tensor view;
    Extent extent;
  };
  struct Expert {
    Matrix gate;  // (expert_inner, hidden)
    Matrix up;    // (expert_inner, hidden)
    Matrix down;  // (hidden, expert_inner)
  };
  Expert expert(int layer, int expert) const;

  // Throws InputError naming tensor and element if a weight is NaN or infinite. Called once when a checkpoint
  // is opened by the commands; costs one read of the file.
  void check_finite() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetune
