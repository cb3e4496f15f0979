#include "kernels/placed_attention.h"

#include "kernels/cuda/attend.cuh"

namespace moetune {
namespace {

const float* data_or_null(const Tensor& tensor) { return tensor.empty() ? nullptr : tensor.f32(); }

cuda::AttendPlacing placing_of(const PlaceHeads& op, const PlaceHeads::Rows& keys) {
  cuda::AttendPlacing placing;
  placing.is_asked = true;
  placing.new_keys = keys.x.f32();
  placing.new_key_strides = {keys.x.stride(0), keys.x.stride(1)};
  placing.key_norm = data_or_null(keys.norm);
  placing.rope_scale = op.scale;
  placing.is_interleaved = op.interleaved;
  placing.eps = op.eps;
  return placing;
}

bool is_whole(const Tensor& norm, std::int64_t width) { return norm.empty() || norm.dim(0) == width; }

}  // namespace

void run(Cuda& cuda, const PlacedAttention& op) {
  const auto& [q, k, v] = op.place.rows;
  const std::int64_t width = q.x.dim(2);
  const bool rotates = q.rotated != PlaceHeads::kNoRotation;
  const bool is_plain = is_whole(q.norm, width) && is_whole(k.norm, width) && v.norm.empty() &&
                        q.rotated == k.rotated && v.rotated == PlaceHeads::kNoRotation &&
                        (!rotates || (q.rotated == 0 && 2 * op.place.frequencies.dim(0) == width));
  if (op.is_one_each && is_plain) {
    cuda::AttendCall call = cuda::call_of(op.attention);
    cuda::AttendPlacing& placing = call.inputs.placing;
    placing = placing_of(op.place, k);
    placing.new_values = v.x.f32();
    placing.new_value_strides = {v.x.stride(0), v.x.stride(1)};
    placing.query_norm = data_or_null(q.norm);
    placing.frequencies = rotates ? op.place.frequencies.f32() : nullptr;
    if (cuda::attend_places(call.type, call.shape, call.inputs))
      return cuda::attend(cuda, call.type, call.shape, call.inputs);
  }
  run(cuda, op.place);
  run(cuda, op.attention);
}

void run(Cuda& cuda, const PlacedMlaAttention& op) {
  const auto& [q, row, unused] = op.place.rows;
  const std::int64_t rank = op.attention.q_latent.dim(2);
  const std::int64_t rope = op.attention.q_rope.dim(2);
  const bool is_plain = q.norm.empty() && row.norm.dim(0) == rank && row.rotated == rank &&
                        unused.x.empty() && q.rotated != PlaceHeads::kNoRotation &&
                        2 * op.place.frequencies.dim(0) == rope;
  if (op.is_one_each && is_plain) {
    cuda::AttendCall call = cuda::call_of(op.attention);
    call.inputs.placing = placing_of(op.place, row);
    call.inputs.placing.frequencies = op.place.frequencies.f32();
    if (cuda::attend_places(call.type, call.shape, call.inputs))
      return cuda::attend(cuda, call.type, call.shape, call.inputs);
  }
  run(cuda, op.place);
  run(cuda, op.attention);
}

}  // namespace moetune
