// PlaceAhead: gives slots to experts that a layer still to come is expected to ask for, decided where the
// lookups are. It says what is to be fetched, beside the layer that runs: what that layer's wave uses stays
// where it is. A guess is neither counted as asked for nor used before a lookup of its layer finds it
// resident; so it decides where an expert lies, never which one is used. By the rules of
// ExpertCache::fetch_ahead().
#pragma once

#include "kernels/device.h"
#include "kernels/slot_lookup.h"
#include "kernels/tensor.h"

namespace moetune {

struct PlaceAhead {
  Tensor ids{};  // (tokens, k) i32 guesses, best first, -1: none; empty: what the layer asked for in its last
                 // step
  LayerSlots of;                  // the layer that is expected to ask
  int most = 0;                   // experts that are held or placed, the first of every token first
  bool is_between_steps = false;  // then nothing is in use
  FetchList fetch;                // written
};
void run(Cpu& cpu, const PlaceAhead& op);
// At most 1,024 experts in a layer: throws std::invalid_argument.
void run(Cuda& cuda, const PlaceAhead& op);

}  // namespace moetune
