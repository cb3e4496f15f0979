// How fast one core decodes the routed half of a MoE layer in each number type, against what it can read from
// memory. Start at main(). Every step routes to fresh random experts, so that weights come from memory and
// not from a cache. Times are the thread's own processor time: other work on the machine does not count, only
// what it takes of the memory's rate.
//
//   moe_layer_bench [qwen3-30b | tiny-moe] [seconds per type]
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/expert_ffn.h"
#include "kernels/quantize.h"
#include "kernels/run.h"

namespace moetune {
namespace {

struct Shape {
  std::string name;
  std::int64_t hidden;
  std::int64_t inner;
  int experts;
  int experts_per_token;
};

double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// GB/s at which one core sums 64-bit words of a block: the best of several passes.
double measured_read_rate(const std::byte* data, std::int64_t bytes) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  const std::int64_t count = bytes / 8;
  double best_ns = 1e30;
  volatile std::uint64_t sink = 0;
  for (int pass = 0; pass < 5; ++pass) {
    const double start = thread_ns();
    std::uint64_t sums[8] = {};
    for (std::int64_t i = 0; i + 8 <= count; i += 8)
      for (int lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
    for (const std::uint64_t sum : sums) sink = sink + sum;
    best_ns = std::min(best_ns, thread_ns() - start);
  }
  return static_cast<double>(bytes) / best_ns;
}

// One random expert, quantized, then copied to every slot: the time does not depend on the values.
Buffer filled_slots(Device& device, const ExpertLayout& layout, int experts) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  Buffer slots(device, layout.bytes * experts);
  const auto fill = [&](const MatrixLayout& matrix, std::byte* to) {
    OwnedTensor weights(device, NumberType::f32, {matrix.out, matrix.in});
    std::generate_n(weights.view().f32(), weights.view().elements(), [&] { return normal(random); });
    run(device, Quantize{.x = weights.view(), .y = to, .layout = matrix});
  };
  fill(layout.gate, slots.data());
  fill(layout.up, slots.data() + layout.up_offset);
  fill(layout.down, slots.data() + layout.down_offset);
  for (int slot = 1; slot < experts; ++slot)
    copy_to_device(device, slots.data(), slots.data() + slot * layout.bytes, layout.bytes);
  return slots;
}

// Median nanoseconds of one token's ExpertFfn and Combine.
double measure_layer(const Shape& shape, NumberType type, double seconds, double& read_rate) {
  Device device = Cpu(1);
  const ExpertLayout layout = ExpertLayout::of(type, shape.hidden, shape.inner);
  const Buffer slots = filled_slots(device, layout, shape.experts);
  if (type == NumberType::bf16) read_rate = measured_read_rate(slots.data(), slots.bytes());

  OwnedTensor x(device, NumberType::f32, {1, shape.hidden});
  OwnedTensor y(device, NumberType::f32, {1, shape.hidden});
  OwnedTensor rows(device, NumberType::f32, {1, shape.experts_per_token, shape.hidden});
  OwnedTensor weights(device, NumberType::f32, {1, shape.experts_per_token});
  OwnedTensor ids(device, NumberType::i32, {1, shape.experts_per_token});
  OwnedTensor slot_of_expert(device, NumberType::i32, {shape.experts});
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::generate_n(x.view().f32(), shape.hidden, [&] { return uniform(random); });
  std::fill_n(y.view().f32(), shape.hidden, 0.0F);
  std::fill_n(weights.view().f32(), shape.experts_per_token,
              1.0F / static_cast<float>(shape.experts_per_token));
  std::vector<std::int32_t> experts;
  for (int expert = 0; expert < shape.experts; ++expert) {
    slot_of_expert.view().i32()[expert] = expert;
    experts.push_back(expert);
  }

  std::vector<double> step_ns;
  const double start = thread_ns();
  while (thread_ns() - start < seconds * 1e9 || step_ns.size() < 10) {
    std::shuffle(experts.begin(), experts.end(), random);
    std::copy_n(experts.begin(), shape.experts_per_token, ids.view().i32());
    const double step = thread_ns();
    run(device, ExpertFfn{.x = x.view(),
                          .ids = ids.view(),
                          .slot_of_expert = slot_of_expert.view(),
                          .slots = slots.data(),
                          .layout = layout,
                          .rows = rows.view()});
    run(device, Combine{.rows = rows.view(), .weights = weights.view(), .y = y.view()});
    step_ns.push_back(thread_ns() - step);
  }
  return median(step_ns);
}

int bench(const Shape& shape, double seconds) {
  std::printf("%s: hidden %lld, inner %lld, %d experts, top-%d, one token, one core\n", shape.name.c_str(),
              static_cast<long long>(shape.hidden), static_cast<long long>(shape.inner), shape.experts,
              shape.experts_per_token);
  double read_rate = 0.0;
  double bf16_ns = 0.0;
  for (const NumberType type : {NumberType::bf16, NumberType::f16, NumberType::f32, NumberType::int8,
                                NumberType::int4, NumberType::int4_g32, NumberType::fp8, NumberType::mxfp4}) {
    const double ns = measure_layer(shape, type, seconds, read_rate);
    if (type == NumberType::bf16) {
      bf16_ns = ns;
      std::printf("memory read rate of one core: %.1f GB/s\n%-9s %12s %8s %10s %14s\n", read_rate, "type",
                  "ns/layer", "GB/s", "x of bf16", "of read rate");
    }
    const auto bytes = static_cast<double>(ExpertLayout::of(type, shape.hidden, shape.inner).bytes) *
                       shape.experts_per_token;
    std::printf("%-9s %12.0f %8.2f %10.2f %13.0f%%\n", std::string(name_of(type)).c_str(), ns, bytes / ns,
                bf16_ns / ns, 100.0 * bytes / ns / read_rate);
  }
  return 0;
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "qwen3-30b";
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2.0;
  for (const moetune::Shape& shape :
       {moetune::Shape{"qwen3-30b", 2048, 768, 128, 8}, {"tiny-moe", 192, 64, 32, 8}})
    if (shape.name == name && seconds > 0.0) return moetune::bench(shape, seconds);
  std::fprintf(stderr, "usage: moe_layer_bench [qwen3-30b | tiny-moe] [seconds per type]\n");
  return 2;
}
