// A view of numbers somewhere on a device: pointer, type, shape, strides. Owns nothing (Buffer does).
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "kernels/number_type.h"

namespace moetune {

// Up to four dimensions; the innermost is contiguous, the outer ones may be strided (a slice of wider rows).
class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, NumberType type, std::initializer_list<std::int64_t> shape);

  void* data() const { return data_; }
  NumberType type() const { return type_; }
  int rank() const { return rank_; }
  bool empty() const { return data_ == nullptr; }
  std::int64_t dim(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }
  std::int64_t stride(int axis) const { return stride_[static_cast<std::size_t>(axis)]; }  // in elements
  std::int64_t elements() const;
  bool contiguous() const;

  // Elements [begin, begin + count) of the innermost axis: (rows, width) -> (rows, count), strides kept.
  Tensor columns(std::int64_t begin, std::int64_t count) const;
  // Rows [begin, begin + count) of the outermost axis.
  Tensor rows(std::int64_t begin, std::int64_t count) const;
  // The same rows of the outermost axis, so many elements from one to the next: parts of wider rows.
  Tensor with_row_stride(std::int64_t elements) const;
  // The same shape, strides and type over other memory: a copy on another device.
  Tensor moved_to(void* data) const;
  // The same contiguous elements under another shape.
  Tensor reshaped(std::initializer_list<std::int64_t> shape) const;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  float* f32() const {
    assert(type_ == NumberType::f32);
    return static_cast<float*>(data_);
  }
  std::int32_t* i32() const {
    assert(type_ == NumberType::i32);
    return static_cast<std::int32_t*>(data_);
  }

 private:
  void* data_ = nullptr;
  NumberType type_ = NumberType::f32;
  int rank_ = 0;
  std::array<std::int64_t, 4> shape_{};
  std::array<std::int64_t, 4> stride_{};
};

// Bytes of one element of an unquantized type; asserts on the packed ones.
std::int64_t element_bytes(NumberType type);

}  // namespace moetune
