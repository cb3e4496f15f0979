#include "kernels/mla_attention.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

#include "kernels/attend.h"
#include "kernels/grain.h"
#include "kernels/simd/dot_rows.h"

namespace moetune {
namespace {

const float* row_of(const Tensor& x, std::int64_t token, std::int64_t head) {
  return x.f32() + token * x.stride(0) + head * x.stride(1);
}

// A few heads of one token. Keys are whole cache rows, values their first `rank` columns.
void attend_piece(const MlaAttention& op, std::int64_t token, std::int64_t first_head) {
  const std::int64_t rank = op.q_latent.dim(2);
  const std::int64_t rope_dim = op.q_rope.dim(2);
  Attend work;
  work.heads = std::min(kHeadsPerPiece, op.q_latent.dim(1) - first_head);
  work.last_position = op.positions.i32()[token];
  thread_local std::vector<float> widened;
  const CacheHead head{op.cache, op.scales, op.sequences.i32()[token], 0, 1};
  work.keys = work.values = cache_rows(head, 0, work.last_position, widened);
  work.values.layout.in = rank;
  work.scale = op.scale;

  thread_local std::vector<float> queries;  // latent and rotated part side by side, as a cache row has them
  queries.resize(static_cast<std::size_t>(work.heads * (rank + rope_dim)));
  std::array<const float*, kHeadsPerPiece> q{};
  std::array<float*, kHeadsPerPiece> y{};
  for (std::int64_t i = 0; i < work.heads; ++i) {
    float* query = queries.data() + i * (rank + rope_dim);
    std::copy_n(row_of(op.q_latent, token, first_head + i), rank, query);
    std::copy_n(row_of(op.q_rope, token, first_head + i), rope_dim, query + rank);
    q[static_cast<std::size_t>(i)] = query;
    y[static_cast<std::size_t>(i)] = op.y.f32() + token * op.y.stride(0) + (first_head + i) * op.y.stride(1);
  }
  work.q = q.data();
  work.y = y.data();
  attend(work);
}

}  // namespace

void run(Cpu& cpu, const MlaAttention& op) {
  const std::int64_t heads = op.q_latent.dim(1);
  const std::int64_t rank = op.q_latent.dim(2);
  const std::int64_t rope_dim = op.q_rope.dim(2);
  assert(op.q_rope.dim(1) == heads && op.cache.dim(2) == rank + rope_dim);
  assert(op.y.dim(1) == heads && op.y.dim(2) == rank);
  const std::int64_t pieces = (heads + kHeadsPerPiece - 1) / kHeadsPerPiece;
  const std::int64_t work_per_piece =
      std::min(heads, kHeadsPerPiece) * (2 * rank + rope_dim) * longest_context(op.positions);
  cpu.pool().parallel_for(op.q_latent.dim(0) * pieces, grain_for(work_per_piece),
                          [&](std::int64_t begin, std::int64_t end) {
                            for (std::int64_t piece = begin; piece < end; ++piece)
                              attend_piece(op, piece / pieces, piece % pieces * kHeadsPerPiece);
                          });
}

void run(Cpu& cpu, const PerHeadGemm& op) {
  const std::int64_t tokens = op.x.dim(0);
  const std::int64_t heads = op.x.dim(1);
  const std::int64_t out = op.y.dim(2);
  const std::int64_t in = op.x.dim(2);
  assert(op.w.layout.in == in && op.w.layout.out == heads * out && op.w.layout.scales_per_row == 0);
  assert(op.y.dim(0) == tokens && op.y.dim(1) == heads);
  cpu.pool().parallel_for(heads, grain_for(tokens * out * in), [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<const float*> x;
    thread_local std::vector<float*> y;
    x.resize(static_cast<std::size_t>(tokens));
    y.resize(static_cast<std::size_t>(tokens));
    for (std::int64_t head = begin; head < end; ++head) {
      for (std::int64_t token = 0; token < tokens; ++token) {
        x[static_cast<std::size_t>(token)] = row_of(op.x, token, head);
        y[static_cast<std::size_t>(token)] = op.y.f32() + token * op.y.stride(0) + head * op.y.stride(1);
      }
      DotRows work;
      work.w = op.w;
      work.w.data = op.w.row_values(head * out);
      work.row_end = out;
      work.x = x.data();
      work.y = y.data();
      work.tokens = tokens;
      dot_rows(work);
    }
  });
}

}  // namespace moetune
