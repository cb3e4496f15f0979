// Decoding token after token without the host in between: each step's choice becomes the next step's input on
// the device, a step is one graph, and the host looks at a log when all are done. Start at
// DecodeLoop::start().
#pragma once

#include <cstdint>
#include <map>

#include "engine/engine.h"
#include "engine/rank.h"
#include "kernels/buffer.h"
#include "kernels/graph.h"
#include "kernels/graph_pieces.h"

namespace moetune {

class DecodeLoop {
 public:
  // steps: most of one run.
  DecodeLoop(Rank& rank, int sequences, int steps);

  // Enqueues all steps of a request; waits for nothing once a graph of as many rows stands. The tokens must
  // have been accepted. Nothing else may start before finish(). How a step is launched: op by op; recorded
  // once, as one graph; or, where the host has parts in it, as several. growing_pieces: nobody asks for it
  // (launch_of()).
  enum class Launch : std::uint8_t { ops, graph, pieces, growing_pieces };
  void start(const DecodeRequest& request, Launch asked);
  // The one wait of a run, and what it found.
  Decoded finish();

  void forget_graphs() {
    graphs_.clear();
    pieces_.clear();
  }

  std::int64_t bytes() const;
  static std::int64_t bytes_of(int sequences, int steps);

 private:
  void step(std::int64_t rows);
  Launch launch_of(Launch asked) const;
  void launch_step(std::int64_t rows, Launch launch, bool may_record);
  void place_inputs(const DecodeRequest& request);

  Rank* rank_;
  int steps_;
  Sampling sampling_;
  OwnedTensor state_;
  OwnedTensor sampled_;
  OwnedTensor keys_;
  OwnedTensor forced_;
  // Inputs on their way to the device: a copy out of pinned memory is enqueued, one out of any other may wait
  // until the device has come as far.
  SharedBuffer staged_;
  SharedBuffer log_ids_;
  SharedBuffer log_ns_;
  std::map<std::int64_t, Graph> graphs_;        // by rows; of the sampling in graph_sampling_
  std::map<std::int64_t, GraphPieces> pieces_;  // the same
  Sampling graph_sampling_;
  std::int64_t started_rows_ = 0;
  int started_steps_ = 0;
};

}  // namespace moetune
