#include "kernels/tensor.h"

#include <algorithm>

namespace moetune {

Tensor::Tensor(void* data, NumberType type, std::initializer_list<std::int64_t> shape)
    : data_(data), type_(type), rank_(static_cast<int>(shape.size())) {
  assert(shape.size() >= 1 && shape.size() <= shape_.size());
  std::copy(shape.begin(), shape.end(), shape_.begin());
  std::int64_t step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    assert(shape_[axis] >= 0);
    stride_[axis] = step;
    step *= shape_[axis];
  }
}

std::int64_t Tensor::elements() const {
  if (rank_ == 0) return 0;
  std::int64_t count = 1;
  for (int axis = 0; axis < rank_; ++axis) count *= dim(axis);
  return count;
}

bool Tensor::contiguous() const {
  std::int64_t step = 1;
  for (int axis = rank_; axis-- > 0;) {
    if (dim(axis) != 1 && stride(axis) != step) return false;
    step *= dim(axis);
  }
  return true;
}

Tensor Tensor::columns(std::int64_t begin, std::int64_t count) const {
  assert(rank_ >= 1 && begin >= 0 && count >= 0 && begin + count <= dim(rank_ - 1));
  Tensor part = *this;
  part.data_ = static_cast<std::byte*>(data_) + begin * element_bytes(type_);
  part.shape_[static_cast<std::size_t>(rank_ - 1)] = count;
  return part;
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t count) const {
  assert(rank_ >= 1 && begin >= 0 && count >= 0 && begin + count <= dim(0));
  Tensor part = *this;
  part.data_ = static_cast<std::byte*>(data_) + begin * stride(0) * element_bytes(type_);
  part.shape_[0] = count;
  return part;
}

Tensor Tensor::with_row_stride(std::int64_t elements) const {
  assert(rank_ >= 1 && (rank_ == 1 || elements >= dim(1) * stride(1)));
  Tensor apart = *this;
  apart.stride_[0] = elements;
  return apart;
}

Tensor Tensor::moved_to(void* data) const {
  Tensor moved = *this;
  moved.data_ = data;
  return moved;
}

Tensor Tensor::reshaped(std::initializer_list<std::int64_t> shape) const {
  assert(contiguous());
  Tensor same(data_, type_, shape);
  assert(same.elements() == elements());
  return same;
}

std::int64_t element_bytes(NumberType type) {
  switch (type) {
    case NumberType::f32:
    case NumberType::i32:
      return 4;
    case NumberType::f16:
    case NumberType::bf16:
      return 2;
    case NumberType::fp8:
    case NumberType::int8:
      return 1;
    case NumberType::int4:
    case NumberType::int4_g32:
    case NumberType::mxfp4:
      break;
  }
  assert(false && "packed types have no whole number of bytes per element");
  return 0;
}

}  // namespace moetune
