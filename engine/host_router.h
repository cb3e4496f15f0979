// router=cpu: scores and top-k of a layer computed on the host while the rest stays on a GPU. The residual
// stream comes down, the choice and the normed rows go back, and the GPU waits meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/facts/model_spec.h"
#include "engine/weights.h"
#include "kernels/buffer.h"
#include "kernels/change_route.h"
#include "kernels/device.h"
#include "kernels/router.h"

namespace moetune {

class HostRouter {
 public:
  // Copies the routers' weights to the host. tokens: most of one step.
  HostRouter(Device& device, const ModelSpec& spec, const Weights& weights, std::int64_t tokens);

  // What run(device, op) and run(device, change) would do for a layer, up to rounding; what was replaced is
  // counted here. Waits for the device. Returns the ids, (tokens, k), valid until the next call.
  std::span<const std::int32_t> route(Device& device, Cpu& host, const Router& op, const ChangeRoute& change,
                                      int layer);

  std::int64_t rerouted() const { return rerouted_; }  // since the last reset
  void reset_rerouted() { rerouted_ = 0; }

 private:
  struct Layer {
    OwnedTensor norm;
    Buffer matrix;
    OwnedTensor bias;
    OwnedTensor favour;
  };
  Device memory_;              // the host's
  std::vector<Layer> layers_;  // of the model; empty where a layer does not route
  OwnedTensor x_;
  OwnedTensor normed_;
  OwnedTensor logits_;
  OwnedTensor ids_;
  OwnedTensor weights_;
  OwnedTensor sequences_;
  OwnedTensor positions_;
  OwnedTensor table_;  // (experts) i32: what is resident of the layer
  std::int64_t rerouted_ = 0;
};

}  // namespace moetune
