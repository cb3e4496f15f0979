// Ops with a part of the host's in between, recorded once and launched again: a graph for what lies before
// the host's part, one for what follows, and so on. Start at record().
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "kernels/graph.h"

namespace moetune {

class GraphPieces {
 public:
  // Runs step() once, as it would be run without this, and records it meanwhile. step() enqueues ops and
  // calls host() wherever the host has a part; the parts must be the same ones every time, and every op must
  // have run once before. On a CPU there is nothing to record: launch() calls step() again. Throws what
  // step() throws, and std::runtime_error when the device refuses.
  void record(Device& device, const std::function<void()>& step);

  // From within step(): part() is called now and, behind the ops before it, at every launch. It waits for the
  // device itself where it must.
  void host(const std::function<void()>& part);

  // From within step(): what follows is launched apart from what came before.
  void cut();

  // False once memory that a piece uses has moved, and before anything is recorded.
  bool is_current() const;
  // Everything again, with the host's parts in between.
  void launch() const;

 private:
  void end_piece();

  struct Piece {
    std::shared_ptr<Graph::Recorded> ops;  // null: the host has two parts in a row
    std::function<void()> part;            // behind them; empty: the last
  };
  Device* device_ = nullptr;  // while recording
  std::vector<Piece> pieces_;
};

}  // namespace moetune
