// Attention of a step whose heads have just been projected: PlaceHeads, then the attention over the cache. On
// a GPU that is one kernel where every token is of a sequence of its own, as when decoding.
#pragma once

#include "kernels/attention.h"
#include "kernels/device.h"
#include "kernels/mla_attention.h"
#include "kernels/place_heads.h"

namespace moetune {

// place.rows: queries, keys, values; their x is undefined afterwards. Cache, scales, sequences and positions:
// the attention's.
struct PlacedAttention {
  PlaceHeads place;
  Attention attention;
  bool is_one_each = false;  // no two tokens of one sequence
};
void run(Cpu& cpu, const PlacedAttention& op);
void run(Cuda& cuda, const PlacedAttention& op);

// place.rows: queries, of which only the rotated part matters here, and the compressed row.
struct PlacedMlaAttention {
  PlaceHeads place;
  MlaAttention attention;
  bool is_one_each = false;
};
void run(Cpu& cpu, const PlacedMlaAttention& op);
void run(Cuda& cuda, const PlacedMlaAttention& op);

}  // namespace moetune
