// What the benches of a GPU share: memory full of small numbers, the time of a chain of layers, arguments.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/graph.h"
#include "kernels/next_tokens.h"
#include "kernels/number_convert.h"
#include "kernels/run.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune::bench {

// Blocks of device memory that hold bf16 numbers within `largest` of zero, whatever type they are taken for.
class Memory {
 public:
  Memory(Device& device, float largest) : device_(&device) {
    std::mt19937 random(1);
    pattern_.resize(std::size_t{1} << 22);
    for (std::size_t i = 0; i < pattern_.size(); i += 2) {
      const std::uint16_t half =
          bf16_from_f32((static_cast<float>(random() % 2001) * 1e-3F - 1.0F) * largest);
      std::memcpy(pattern_.data() + i, &half, 2);
    }
  }

  // What was handed out is free again, as it is then: filling gigabytes takes longer than what is measured.
  void start_over() { used_.assign(buffers_.size(), false); }

  std::byte* bytes(std::int64_t count) {
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (!used_[i] && buffers_[i].bytes() >= count) {
        used_[i] = true;
        return buffers_[i].data();
      }
    buffers_.emplace_back(*device_, count);
    used_.push_back(true);
    const auto step = static_cast<std::int64_t>(pattern_.size());
    for (std::int64_t at = 0; at < count; at += step)
      copy_to_device(*device_, pattern_.data(), buffers_.back().data() + at, std::min(count - at, step));
    return buffers_.back().data();
  }
  Tensor tensor(NumberType type, std::initializer_list<std::int64_t> dims) {
    std::int64_t count = element_bytes(type);
    for (const std::int64_t dim : dims) count *= dim;
    return {bytes(count), type, dims};
  }
  WeightMatrix matrix(NumberType type, std::int64_t out, std::int64_t in, Packing packing = Packing::tiles) {
    const MatrixLayout layout = MatrixLayout::of(type, out, in, packing);
    return {bytes(layout.bytes), layout};
  }
  void put(const Tensor& to, const void* from) {
    copy_to_device(*device_, from, to.data(), to.elements() * element_bytes(to.type()));
  }

 private:
  Device* device_;
  std::vector<std::byte> pattern_;
  std::vector<Buffer> buffers_;
  std::vector<bool> used_;  // of buffers_
};

// Microseconds of one layer: body of each, in one graph, by the device's clock; the median of `runs`
// launches.
template <class Layer, class Body>
double microseconds(Device& device, const std::vector<Layer>& layers, int runs, const Body& body) {
  for (const Layer& layer : layers) body(layer);
  wait_for(device);
  SharedBuffer clock(device, 16);
  auto* ns = reinterpret_cast<std::int64_t*>(clock.data());
  const Graph graph(device, [&] {
    run(device, StartClock{ns});
    for (const Layer& layer : layers) body(layer);
    run(device, StartClock{ns + 1});
  });
  std::vector<double> each;
  for (int i = 0; i < runs; ++i) {
    graph.launch();
    wait_for(device);
    each.push_back(1e-3 * static_cast<double>(ns[1] - ns[0]) / static_cast<double>(layers.size()));
  }
  std::ranges::sort(each);
  return each[each.size() / 2];
}

// What main() returns: body ran, or its error has been printed.
template <class Body>
int run_main(const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// The whole of main() where there is no CUDA to measure.
inline int without_cuda() {
  std::puts("built without CUDA: nothing to measure");
  return 0;
}

inline std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace moetune::bench
