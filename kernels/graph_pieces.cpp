#include "kernels/graph_pieces.h"

#include <algorithm>
#include <utility>
#include <variant>

#if MOETUNE_HAS_CUDA
#include "kernels/cuda_graph.h"
#endif

namespace moetune {
namespace {

bool is_recorded(Cpu&) { return false; }
void begin(Cpu&) {}
std::shared_ptr<Graph::Recorded> end(Cpu&) { return nullptr; }
void abandon(Cpu&) {}
#if MOETUNE_HAS_CUDA
bool is_recorded(Cuda&) { return true; }
void begin(Cuda& cuda) { begin_cuda_capture(cuda); }
std::shared_ptr<Graph::Recorded> end(Cuda& cuda) { return end_cuda_capture(cuda); }
void abandon(Cuda& cuda) { abandon_cuda_capture(cuda); }
#endif

struct StepAgain : Graph::Recorded {
  explicit StepAgain(std::function<void()> what) : step(std::move(what)) {}
  bool is_current() const override { return true; }
  void launch() override { step(); }
  std::function<void()> step;
};

}  // namespace

void GraphPieces::record(Device& device, const std::function<void()>& step) {
  pieces_.clear();
  if (!std::visit([](auto& on) { return is_recorded(on); }, device)) {
    step();
    pieces_.push_back({std::make_shared<StepAgain>(step), {}});
    return;
  }
  device_ = &device;
  try {
    std::visit([](auto& on) { begin(on); }, device);
    step();
    end_piece();
  } catch (...) {
    std::visit([](auto& on) { abandon(on); }, device);
    pieces_.clear();
    device_ = nullptr;
    throw;
  }
  device_ = nullptr;
}

void GraphPieces::end_piece() {
  pieces_.push_back({std::visit([](auto& on) { return end(on); }, *device_), {}});
  if (pieces_.back().ops) pieces_.back().ops->launch();
}

void GraphPieces::host(const std::function<void()>& part) {
  if (device_ == nullptr) return part();
  end_piece();
  pieces_.back().part = part;
  part();
  std::visit([](auto& on) { begin(on); }, *device_);
}

void GraphPieces::cut() {
  if (device_ == nullptr) return;
  end_piece();
  std::visit([](auto& on) { begin(on); }, *device_);
}

bool GraphPieces::is_current() const {
  return !pieces_.empty() && std::ranges::all_of(pieces_, [](const Piece& piece) {
    return !piece.ops || piece.ops->is_current();
  });
}

void GraphPieces::launch() const {
  for (const Piece& piece : pieces_) {
    if (piece.ops) piece.ops->launch();
    if (piece.part) piece.part();
  }
}

}  // namespace moetune
