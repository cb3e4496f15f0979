// What top_k_rule and reroute_margin do to a choice, on the GPU against the same op on the CPU: every rule of
// routing, odd sizes, drops and replacements alone and together.
#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/change_route.h"
#include "kernels/run.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

struct Shape {
  RouteRule rule;
  std::int64_t experts;
  std::int64_t k;
  int groups;
  int kept_groups;
  std::int64_t tokens;
};

struct Change {
  const char* name;
  double threshold;
  int kept;
  double margin;
};

constexpr Shape kShapes[] = {{RouteRule::softmax, 5, 2, 1, 1, 1},
                             {RouteRule::softmax, 5, 2, 1, 1, 37},
                             {RouteRule::softmax, 128, 8, 1, 1, 1},
                             {RouteRule::softmax, 128, 8, 1, 1, 70},
                             {RouteRule::softmax, 1024, 10, 1, 1, 33},
                             {RouteRule::grouped_sigmoid_bias, 32, 8, 4, 2, 9},
                             {RouteRule::grouped_sigmoid_bias, 256, 8, 8, 4, 1},
                             {RouteRule::grouped_sigmoid_bias, 256, 8, 8, 4, 32},
                             {RouteRule::sqrt_softplus_bias, 13, 3, 1, 1, 5}};
constexpr Change kChanges[] = {
    {"nothing", 0.0, 0, 0.0},       {"threshold", 0.6, 0, 0.0},  {"all but the largest", 1.0, 0, 0.0},
    {"kept", 0.0, 1, 0.0},          {"all kept", 0.0, 100, 0.0}, {"margin", 0.0, 0, 0.1},
    {"a wide margin", 0.0, 0, 1.0}, {"all of it", 0.4, 2, 0.3}};

class CudaChangeRoute : public GpuTest {
 protected:
  Device cpu_ = cpu();

  template <class T>
  std::vector<T> there_and_back(const T* from, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    copy_to_host(gpu(), from, values.data(), count * static_cast<std::int64_t>(sizeof(T)));
    return values;
  }
};

// A third of the experts is resident, others become so in the step.
TEST_F(CudaChangeRoute, DoesWhatTheCpuDoes) {
  std::int64_t all_replaced = 0;
  std::int64_t all_dropped = 0;
  for (const Shape& shape : kShapes)
    for (const Change& change : kChanges) {
      const OwnedTensor logits = random_floats({shape.tokens, shape.experts}, 3);
      const OwnedTensor bias = random_floats({shape.experts}, 4);
      const OwnedTensor chosen(cpu_, NumberType::i32, {shape.tokens, shape.k});
      const OwnedTensor weights = poisoned({shape.tokens, shape.k});
      Route route{.logits = logits.view(),
                  .bias = shape.rule == RouteRule::softmax ? Tensor() : bias.view(),
                  .ids = chosen.view(),
                  .weights = weights.view(),
                  .rule = shape.rule,
                  .normalize = shape.k != 2,
                  .scale = 2.5F,
                  .groups = shape.groups,
                  .kept_groups = shape.kept_groups};
      run(cpu_, route);
      std::mt19937 random(5);
      std::vector<std::int32_t> slots;
      for (std::int64_t expert = 0; expert < shape.experts; ++expert)
        slots.push_back(random() % 3 == 0 ? static_cast<std::int32_t>(expert) : -1);
      const OwnedTensor table = ids(slots);
      std::int64_t replaced = 0;
      ChangeRoute op{.route = route,
                     .threshold = change.threshold,
                     .kept = change.kept,
                     .margin = change.margin,
                     .slot_of_expert = table.view(),
                     .replaced = &replaced};
      ChangeRoute on_gpu = op;
      on_gpu.route.logits = there(logits.view());
      if (!route.bias.empty()) on_gpu.route.bias = there(bias.view());
      on_gpu.route.ids = there(chosen.view());
      on_gpu.route.weights = there(weights.view());
      on_gpu.slot_of_expert = there(table.view());
      Buffer count(gpu(), sizeof(std::int64_t));
      copy_to_device(gpu(), &replaced, count.data(), sizeof(replaced));
      on_gpu.replaced = reinterpret_cast<std::int64_t*>(count.data());
      run(gpu(), on_gpu);
      run(cpu_, op);
      const std::string what = std::string(change.name) + ", " + std::to_string(shape.experts) +
                               " experts, " + std::to_string(shape.tokens) + " tokens";
      const std::int64_t places = shape.tokens * shape.k;
      const std::span<const std::int32_t> expected(chosen.view().i32(), static_cast<std::size_t>(places));
      EXPECT_EQ(there_and_back(on_gpu.route.ids.i32(), places), std::vector(expected.begin(), expected.end()))
          << what;
      expect_near(on_gpu.route.weights, weights.view(), 1e-5, what);
      const std::int64_t replaced_there = there_and_back(on_gpu.replaced, 1)[0];
      EXPECT_EQ(replaced_there, replaced) << what;
      all_replaced += replaced;
      all_dropped += std::ranges::count(expected, -1);
    }
  EXPECT_GT(all_replaced, 100);
  EXPECT_GT(all_dropped, 100);
}

}  // namespace
}  // namespace moetune

#endif
