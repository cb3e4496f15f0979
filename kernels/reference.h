// The plainest loops that can be right, one per op that also has a fast version. The fast ones are tested
// against these; nothing else calls them. One thread, no SIMD, sums in double so that the reference is nearer
// to the truth than either.
#pragma once

#include "kernels/attention.h"
#include "kernels/expert_ffn.h"
#include "kernels/gemm.h"
#include "kernels/mla_attention.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"

namespace moetune::reference {

void run(const Gemm& op);
void run(const PerHeadGemm& op);
void run(const SwiGlu& op);
void run(const RmsNorm& op);
void run(const Attention& op);
void run(const MlaAttention& op);
void run(const ExpertFfn& op);

// Element (row, column) as the float it stands for, read straight from the layout in weight_matrix.h.
float weight_at(const WeightMatrix& w, std::int64_t row, std::int64_t column);

}  // namespace moetune::reference
