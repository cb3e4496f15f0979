// Microseconds of one layer's attention when decoding on a GPU: layers of their own caches in one CUDA graph,
// so that no cache is in the L2 cache when it is read.
//
//   cuda_attention_bench [shape ...] [sequences=1,32] [context=512,4096,32768] [type=bf16,fp8,int8]
//   [cluster=8]
//                        [portable]
//
// shape: qwen3, v3, v2lite or all. "attention": heads placed and attended to; "apart": the same as two ops;
// MLA also with its absorbed projections ("with up"). Prints bytes of the cache, its share of READ_GB_S and
// the products' share of TENSOR_TFLOPS.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/kernel_path.h"
#include "kernels/placed_attention.h"
#include "kernels/run.h"
#include "tests/bench/cuda_bench.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

// Of this bench's card; shares are of these.
constexpr double kReadGbPerS = 4470.0;
constexpr double kTensorTflops = 790.0;
constexpr std::int64_t kL2Bytes = std::int64_t{60} << 20;

struct Shape {
  const char* name;
  std::int64_t heads, kv_heads, width, rope;  // rope > 0: MLA, width is the latent's
};
constexpr Shape kShapes[] = {{"qwen3", 32, 4, 128, 0}, {"v3", 128, 1, 512, 64}, {"v2lite", 16, 1, 512, 64}};
constexpr std::int64_t kNope = 128;  // of MLA's heads, as wide as their values

class Bench {
 public:
  void measure(const Shape& shape, NumberType type, std::int64_t sequences, std::int64_t context) {
    const std::int64_t row = shape.kv_heads * shape.width + shape.rope;
    const std::int64_t matrices = shape.rope > 0 ? 1 : 2;
    const std::int64_t cache_bytes = sequences * context * row * element_bytes(type) * matrices;
    const auto layers = static_cast<int>(std::clamp<std::int64_t>(8 * kL2Bytes / cache_bytes, 3, 32));
    memory_.start_over();
    std::vector<Layer> all;
    for (int layer = 0; layer < layers; ++layer) {
      Layer one;
      one.keys = tensor(type, {sequences, context, row});
      if (matrices == 2) one.values = tensor(type, {sequences, context, row});
      if (type == NumberType::int8) {
        one.key_scales = tensor(NumberType::f32, {sequences, context, shape.kv_heads});
        one.value_scales = tensor(NumberType::f32, {sequences, context, shape.kv_heads});
      }
      if (shape.rope > 0) {
        one.key_up = memory_.matrix(NumberType::bf16, shape.heads * shape.width, kNope);
        one.value_up = memory_.matrix(NumberType::bf16, shape.heads * kNope, shape.width);
      }
      all.push_back(one);
    }
    const std::int64_t q_width = shape.rope > 0 ? kNope + shape.rope : shape.width;
    q_ = tensor(NumberType::f32, {sequences, shape.heads, q_width});
    k_ = tensor(NumberType::f32, {sequences, shape.kv_heads, shape.width + shape.rope});
    v_ = tensor(NumberType::f32, {sequences, shape.kv_heads, shape.width});
    latent_ = tensor(NumberType::f32, {sequences, shape.heads, shape.width});
    y_ = tensor(NumberType::f32, {sequences, shape.heads, shape.width});
    attended_ = tensor(NumberType::f32, {sequences, shape.heads, kNope});
    norm_ = tensor(NumberType::f32, {shape.width});
    radians_ = tensor(NumberType::f32, {(shape.rope > 0 ? shape.rope : shape.width) / 2});
    positions_ = tensor(NumberType::i32, {sequences});
    sequences_ = tensor(NumberType::i32, {sequences});
    const std::vector<std::int32_t> at(static_cast<std::size_t>(sequences),
                                       static_cast<std::int32_t>(context - 1));
    std::vector<std::int32_t> slots(at.size());
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(i);
    memory_.put(positions_, at.data());
    memory_.put(sequences_, slots.data());
    for (const Tensor& x : {q_, k_, v_, latent_, norm_, radians_}) {
      std::vector<float> numbers(static_cast<std::size_t>(x.elements()));
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 97) * 0.02F - 0.9F;
      memory_.put(x, numbers.data());
    }

    const double bytes = static_cast<double>(
        cache_bytes + (type == NumberType::int8 ? sequences * context * shape.kv_heads * 4 * matrices : 0));
    const double flops =
        2.0 * static_cast<double>(sequences * context * shape.heads * (2 * shape.width + shape.rope));
    char what[96];
    std::snprintf(what, sizeof(what), "%-7s %-5s S=%-3lld context %-6lld", shape.name,
                  std::string(name_of(type)).c_str(), static_cast<long long>(sequences),
                  static_cast<long long>(context));
    const auto attends = [&](const Layer& l, bool is_one_each) {
      if (shape.rope > 0)
        run(device_, latent(shape, l, is_one_each));
      else
        run(device_, grouped(shape, l, is_one_each));
    };
    row_of(what, "attention", all, bytes, flops, [&](const Layer& l) { attends(l, true); });
    row_of(what, "apart", all, bytes, flops, [&](const Layer& l) { attends(l, false); });
    if (shape.rope == 0) return;
    const auto key_up = [&](const Layer& l) {
      run(device_, PerHeadGemm{.x = q_.columns(0, kNope), .w = l.key_up, .y = latent_});
    };
    const auto value_up = [&](const Layer& l) {
      run(device_, PerHeadGemm{.x = y_, .w = l.value_up, .y = attended_});
    };
    const auto up_bytes = static_cast<double>(all.front().key_up.layout.bytes);
    row_of(what, "key up", all, up_bytes, 0.0, key_up);
    row_of(what, "value up", all, up_bytes, 0.0, value_up);
    row_of(what, "with up", all, bytes + 2.0 * up_bytes, flops,
           [&](const Layer& l) { key_up(l), attends(l, true), value_up(l); });
  }

 private:
  struct Layer {
    Tensor keys, values, key_scales, value_scales;
    WeightMatrix key_up, value_up;
  };

  PlacedAttention grouped(const Shape& shape, const Layer& l, bool is_one_each) const {
    return {
        .place = {.rows = {{{.x = q_, .norm = norm_, .rotated = 0},
                            {.x = k_, .norm = norm_, .rotated = 0, .cache = l.keys, .scales = l.key_scales},
                            {.x = v_, .cache = l.values, .scales = l.value_scales}}},
                  .sequences = sequences_,
                  .positions = positions_,
                  .frequencies = radians_},
        .attention = {.q = q_,
                      .k_cache = l.keys,
                      .v_cache = l.values,
                      .k_scales = l.key_scales,
                      .v_scales = l.value_scales,
                      .sequences = sequences_,
                      .positions = positions_,
                      .y = y_,
                      .kv_heads = static_cast<int>(shape.kv_heads),
                      .scale = 0.1F},
        .is_one_each = is_one_each};
  }
  PlacedMlaAttention latent(const Shape& shape, const Layer& l, bool is_one_each) const {
    return {.place = {.rows = {{{.x = q_, .rotated = kNope},
                                {.x = k_,
                                 .norm = norm_,
                                 .rotated = static_cast<int>(shape.width),
                                 .cache = l.keys,
                                 .scales = l.key_scales},
                                {}}},
                      .sequences = sequences_,
                      .positions = positions_,
                      .frequencies = radians_},
            .attention = {.q_latent = latent_,
                          .q_rope = q_.columns(kNope, shape.rope),
                          .cache = l.keys,
                          .scales = l.key_scales,
                          .sequences = sequences_,
                          .positions = positions_,
                          .y = y_,
                          .scale = 0.1F},
            .is_one_each = is_one_each};
  }

  Tensor tensor(NumberType type, std::initializer_list<std::int64_t> dims) {
    return memory_.tensor(type, dims);
  }
  template <class Body>
  void row_of(const char* what, const char* name, const std::vector<Layer>& all, double bytes, double flops,
              const Body& body) {
    const double median = bench::microseconds(device_, all, 9, body);
    std::printf("%s %-9s %9.2f us %9.2f MB %5.1f %% read %5.1f %% tensor\n", what, name, median, bytes * 1e-6,
                100.0 * bytes / (median * kReadGbPerS * 1e3), 100.0 * flops / (median * kTensorTflops * 1e6));
    std::fflush(stdout);
  }

  Device device_{Cuda(0)};
  bench::Memory memory_{device_, 1.0F};
  Tensor q_, k_, v_, latent_, y_, attended_, norm_, radians_, positions_, sequences_;
};

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  using namespace moetune;
  std::vector<std::string> names;
  std::vector<std::string> sequences{"1", "32"};
  std::vector<std::string> contexts{"512", "4096", "32768"};
  std::vector<std::string> types{"bf16"};
  KernelPath path;
  return bench::run_main([&] {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      const std::size_t equals = argument.find('=');
      const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
      if (argument.starts_with("sequences="))
        sequences = bench::split(value);
      else if (argument.starts_with("context="))
        contexts = bench::split(value);
      else if (argument.starts_with("type="))
        types = bench::split(value);
      else if (argument.starts_with("cluster="))
        path.most_cluster = std::stoi(value);
      else if (argument == "portable")
        path.is_portable = true;
      else
        names.push_back(argument);
    }
    set_kernel_path(path);
    Bench bench;
    for (const Shape& shape : kShapes)
      if (std::ranges::find(names, shape.name) != names.end() ||
          std::ranges::find(names, "all") != names.end())
        for (const std::string& type : types)
          for (const std::string& count : sequences)
            for (const std::string& context : contexts)
              bench.measure(shape, number_type_named(type).value(), std::stoll(count), std::stoll(context));
  });
}

#else
int main() { return moetune::bench::without_cuda(); }
#endif
