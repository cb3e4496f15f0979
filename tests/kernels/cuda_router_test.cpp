// Product, scores and top-k of a router, one kernel on a GPU, against the CPU: every rule, few tokens and
// more than a kernel takes.
#include <gtest/gtest.h>

#include <string>

#include "kernels/router.h"
#include "kernels/run.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaRouter : public GpuTest {
 protected:
  Device cpu_ = cpu();
};

TEST_F(CudaRouter, PicksTheSameExperts) {
  struct Case {
    NumberType type;
    std::int64_t hidden;
    std::int64_t experts;
    std::int64_t k;
    RouteRule rule;
    int groups;
    int kept;
  };
  for (const Case& c : {Case{NumberType::f32, 52, 5, 2, RouteRule::softmax, 1, 1},
                        Case{NumberType::bf16, 77, 13, 3, RouteRule::softmax, 1, 1},
                        Case{NumberType::bf16, 192, 32, 8, RouteRule::grouped_sigmoid_bias, 4, 2},
                        Case{NumberType::bf16, 2048, 128, 8, RouteRule::softmax, 1, 1},
                        Case{NumberType::f16, 1024, 256, 8, RouteRule::grouped_sigmoid_bias, 8, 4},
                        Case{NumberType::bf16, 256, 512, 10, RouteRule::softmax, 1, 1}})
    for (const std::int64_t tokens : {1, 5, 32, 33}) {
      const OwnedMatrix w = random_weights(c.type, c.experts, c.hidden, 1);
      const OwnedTensor x = random_floats({tokens, c.hidden}, 2);
      const OwnedTensor norm = random_floats({c.hidden}, 3);
      const OwnedTensor bias = random_floats({c.experts}, 4);
      const OwnedTensor normed = poisoned({tokens, c.hidden});
      const OwnedTensor logits = poisoned({tokens, c.experts});
      OwnedTensor chosen(cpu_, NumberType::i32, {tokens, c.k});
      const OwnedTensor weights = poisoned({tokens, c.k});
      const Tensor gnormed = there(normed.view());
      const Tensor gchosen = there(chosen.view());
      const Tensor gweights = there(weights.view());
      const bool has_bias = c.rule == RouteRule::grouped_sigmoid_bias;
      const auto op = [&](const Tensor& tx, const Tensor& n, const Tensor& to, const WeightMatrix& matrix,
                          const Tensor& l, const Tensor& b, const Tensor& i, const Tensor& iw) {
        return Router{.x = tx,
                      .norm = n,
                      .normed = to,
                      .eps = 1e-6F,
                      .w = matrix,
                      .route = {.logits = l,
                                .bias = has_bias ? b : Tensor(),
                                .ids = i,
                                .weights = iw,
                                .rule = c.rule,
                                .normalize = true,
                                .scale = 2.5F,
                                .groups = c.groups,
                                .kept_groups = c.kept}};
      };
      const Tensor glogits = there(logits.view());
      for (int again = 0; again < 2; ++again)  // twice: what counts arrivals must be zero again
        run(gpu(), op(there(x.view()), there(norm.view()), gnormed, there(w.w, Packing::rows), glogits,
                      there(bias.view()), gchosen, gweights));
      run(cpu_, op(x.view(), norm.view(), normed.view(), w.w, logits.view(), bias.view(), chosen.view(),
                   weights.view()));
      const std::string what = std::to_string(c.experts) + " experts, " + std::to_string(tokens) + " tokens";
      expect_near(gnormed, normed.view(), 1e-6, what);
      expect_near(glogits, logits.view(), 1e-5, what);
      expect_near(gweights, weights.view(), 1e-4, what);
      OwnedTensor result(cpu_, NumberType::i32, {tokens, c.k});
      back(gchosen, result.view());
      int different = 0;
      for (std::int64_t i = 0; i < tokens * c.k; ++i)
        different += result.view().i32()[i] != chosen.view().i32()[i] ? 1 : 0;
      EXPECT_EQ(different, 0) << what;
    }
}

}  // namespace
}  // namespace moetune

#endif
