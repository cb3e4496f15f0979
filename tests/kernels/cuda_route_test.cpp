// Scores and top-k of every routing rule on a GPU choose what the CPU chooses.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "kernels/route.h"
#include "kernels/run.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaRoute : public GpuTest {
 protected:
  Device cpu_ = cpu();
};

struct Rule {
  RouteRule rule;
  std::int64_t experts;
  std::int64_t k;
  int groups;
  int kept;
};

TEST_F(CudaRoute, IsExact) {
  for (const Rule& rule :
       {Rule{RouteRule::softmax, 5, 2, 1, 1}, Rule{RouteRule::softmax, 128, 8, 1, 1},
        Rule{RouteRule::softmax, 512, 10, 1, 1}, Rule{RouteRule::grouped_sigmoid_bias, 32, 8, 4, 2},
        Rule{RouteRule::grouped_sigmoid_bias, 256, 8, 8, 4},
        Rule{RouteRule::grouped_sigmoid_bias, 13, 3, 1, 1}}) {
    const std::int64_t tokens = 37;
    OwnedTensor logits = random_floats({tokens, rule.experts}, 6);
    for (std::int64_t i = 0; i < rule.experts; ++i)
      logits.view().f32()[i] = 0.5F;  // the first token: all alike
    const OwnedTensor bias = random_floats({rule.experts}, 7);
    const bool has_bias = rule.rule == RouteRule::grouped_sigmoid_bias;
    OwnedTensor chosen(cpu_, NumberType::i32, {tokens, rule.k});
    const OwnedTensor weights = poisoned({tokens, rule.k});
    const Tensor gchosen = there(chosen.view());
    const Tensor gweights = there(weights.view());
    const auto op = [&](const Tensor& from, const Tensor& with, const Tensor& to, const Tensor& weight) {
      return Route{.logits = from,
                   .bias = has_bias ? with : Tensor(),
                   .ids = to,
                   .weights = weight,
                   .rule = rule.rule,
                   .normalize = rule.k != 2,
                   .scale = 2.5F,
                   .groups = rule.groups,
                   .kept_groups = rule.kept};
    };
    run(gpu(), op(there(logits.view()), there(bias.view()), gchosen, gweights));
    run(cpu_, op(logits.view(), bias.view(), chosen.view(), weights.view()));
    OwnedTensor result(cpu_, NumberType::i32, {tokens, rule.k});
    back(gchosen, result.view());
    // The CPU's and the GPU's exp differ in the last bit, so biased scores closer than that may change
    // places.
    int different = 0;
    for (std::int64_t i = 0; i < tokens * rule.k; ++i)
      different += result.view().i32()[i] != chosen.view().i32()[i] ? 1 : 0;
    EXPECT_EQ(different, 0) << rule.experts << " experts";
    expect_near(gweights, weights.view(), 1e-5, std::to_string(rule.experts) + " experts");

    // Given experts: the first ones, best last, whatever the scores say.
    for (std::int64_t i = 0; i < tokens * rule.k; ++i)
      chosen.view().i32()[i] = static_cast<std::int32_t>(rule.k - 1 - i % rule.k);
    const Tensor given = there(chosen.view());
    const auto weigh = [&](const Tensor& from, const Tensor& with, const Tensor& to, const Tensor& weight) {
      Route forced = op(from, with, to, weight);
      forced.ids_are_given = true;
      return forced;
    };
    run(gpu(), weigh(there(logits.view()), there(bias.view()), given, gweights));
    run(cpu_, weigh(logits.view(), bias.view(), chosen.view(), weights.view()));
    back(given, result.view());
    EXPECT_EQ(std::memcmp(result.view().data(), chosen.view().data(),
                          static_cast<std::size_t>(tokens * rule.k) * sizeof(std::int32_t)),
              0);
    expect_near(gweights, weights.view(), 1e-5, std::to_string(rule.experts) + " experts, given");
  }
}

}  // namespace
}  // namespace moetune

#endif
