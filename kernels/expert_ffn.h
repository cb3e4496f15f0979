// ExpertFfn: down(silu(gate x) * up x) of the chosen experts, through a table of slots: resident experts and
// cached ones run the same code. Combine: the weighted sum in rank order. Together they are the routed half
// of a MoE layer.
//
// A step that needs more distinct experts than there are slots runs in waves: each wave gives ExpertFfn a
// table with only its experts present, and the rows of the others are left untouched. Combine adds in rank
// order, so the result does not depend on how the waves were cut.
#pragma once

#include <functional>

#include "kernels/device.h"
#include "kernels/feed_forward.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune {

struct ExpertFfn {
  Tensor x;                     // (tokens, hidden) f32
  Tensor ids;                   // (tokens, k) i32 expert ids; -1: no expert
  Tensor slot_of_expert;        // (experts) i32, -1: not in this wave
  const void* slots = nullptr;  // slot s starts at slots + s * layout.bytes
  ExpertLayout layout;
  Tensor rows;  // (tokens, k, hidden) f32, written where the expert is in this wave
  // Called between the two products: on a CPU when the first is done, on a GPU when it is enqueued. Null:
  // nobody asks.
  const std::function<void()>* after_gate_up = nullptr;
};
void run(Cpu& cpu, const ExpertFfn& op);
void run(Cuda& cuda, const ExpertFfn& op);

// y += sum over choices of weight * FFN, with every expert in its slot: ExpertFfn and Combine in one where a
// step is small.
struct RoutedFfn {
  ExpertFfn ffn;   // rows: scratch, contents undefined afterwards
  Tensor weights;  // (tokens, k) f32
  Tensor y;        // (tokens, hidden) f32, added to
};
void run(Cpu& cpu, const RoutedFfn& op);
void run(Cuda& cuda, const RoutedFfn& op);

// RoutedFfn and the shared experts, which every token takes, in one where a step is small: y += both.
struct MoeFfn {
  RoutedFfn routed;
  FeedForward shared;  // of the same x, into the same y
  // Called where ops of the shared experts' own begin; not where they are part of the routed ones'. Null:
  // nobody asks.
  const std::function<void()>* before_shared = nullptr;
};
void run(Cpu& cpu, const MoeFfn& op);
void run(Cuda& cuda, const MoeFfn& op);

struct Combine {
  Tensor rows;     // (tokens, k, hidden) f32; not read where the weight is 0
  Tensor weights;  // (tokens, k) f32
  Tensor y;        // (tokens, hidden) f32, added to
};
void run(Cpu& cpu, const Combine& op);
void run(Cuda& cuda, const Combine& op);

}  // namespace moetune
