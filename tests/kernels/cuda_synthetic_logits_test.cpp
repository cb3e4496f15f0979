// Synthetic routing on a GPU: the same bits as on the CPU, by itself and inside the router, so that both
// choose the same experts.
#include <vector>

#include "kernels/router.h"
#include "kernels/run.h"
#include "kernels/synthetic_logits.h"
#include "tests/support/gpu.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

struct Case {
  std::int64_t tokens;
  std::int64_t experts;
  std::int64_t k;
};

class CudaSyntheticLogits : public GpuTest {
 protected:
  template <class T>
  OwnedTensor host_list(std::int64_t count, const T& value) {
    OwnedTensor list(host_, NumberType::i32, {count});
    for (std::int64_t i = 0; i < count; ++i) list.view().i32()[i] = value(i);
    return list;
  }

  void expect_same_words(const Tensor& on_gpu, const Tensor& expected, const char* what) {
    std::vector<std::uint32_t> found(static_cast<std::size_t>(expected.elements()));
    copy_to_host(gpu(), on_gpu.data(), found.data(), std::ssize(found) * 4);
    const auto* words = static_cast<const std::uint32_t*>(expected.data());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], words[i]) << what << " " << i;
  }

  Device host_ = Cpu(1);
};

TEST_F(CudaSyntheticLogits, AreThoseOfTheCpuAndDecideInTheRouter) {
  for (const Case& shape :
       {Case{1, 8, 2}, Case{3, 128, 8}, Case{32, 256, 8}, Case{33, 60, 6}, Case{300, 128, 4}}) {
    const OwnedTensor favour = host_list(
        shape.experts, [](std::int64_t i) { return static_cast<std::int32_t>(i % 7 * 90000 - 270000); });
    const OwnedTensor sequences =
        host_list(shape.tokens, [](std::int64_t i) { return static_cast<std::int32_t>(i % 5); });
    const OwnedTensor positions =
        host_list(shape.tokens, [](std::int64_t i) { return static_cast<std::int32_t>(37 * i); });
    SyntheticLogits op{.seed = 0x123456789ABCDEFU,
                       .layer = 11,
                       .hold_tokens = 5,
                       .held_weight = 1500,
                       .fresh_weight = 3000,
                       .surprise_weight = 700};
    op.favour = favour.view();
    op.sequences = sequences.view();
    op.positions = positions.view();
    SyntheticLogits there_op = op;
    there_op.favour = there(op.favour);
    there_op.sequences = there(op.sequences);
    there_op.positions = there(op.positions);
    for (const bool is_prediction : {false, true}) {
      op.is_prediction = there_op.is_prediction = is_prediction;
      const OwnedTensor expected = poisoned({shape.tokens, shape.experts});
      op.logits = expected.view();
      run(host_, op);
      there_op.logits = there(poisoned({shape.tokens, shape.experts}).view());
      run(gpu(), there_op);
      expect_same_words(there_op.logits, expected.view(), "logit");
    }
    op.is_prediction = there_op.is_prediction = false;

    constexpr std::int64_t kHidden = 64;
    const OwnedTensor x = random_floats({shape.tokens, kHidden}, 1);
    const OwnedTensor norm = random_floats({kHidden}, 2);
    const MatrixLayout layout = MatrixLayout::of(NumberType::bf16, shape.experts, kHidden, Packing::rows);
    const std::vector<std::byte> matrix(
        static_cast<std::size_t>(layout.bytes));  // all zeros: by itself it would choose 0 .. k - 1
    const WeightMatrix w{const_cast<std::byte*>(matrix.data()), layout};
    const OwnedTensor normed = poisoned({shape.tokens, kHidden});
    const OwnedTensor logits = poisoned({shape.tokens, shape.experts});
    const OwnedTensor weights = poisoned({shape.tokens, shape.k});
    const OwnedTensor ids(host_, NumberType::i32, {shape.tokens, shape.k});
    run(host_, Router{.x = x.view(),
                      .norm = norm.view(),
                      .normed = normed.view(),
                      .w = w,
                      .route = {.logits = logits.view(), .ids = ids.view(), .weights = weights.view()},
                      .synthetic = op});
    const Tensor gpu_logits = there(logits.view());
    const Tensor gpu_ids = there(ids.view());
    const Tensor gpu_weights = there(poisoned({shape.tokens, shape.k}).view());
    run(gpu(), Router{.x = there(x.view()),
                      .norm = there(norm.view()),
                      .normed = there(normed.view()),
                      .w = there(w, Packing::rows),
                      .route = {.logits = gpu_logits, .ids = gpu_ids, .weights = gpu_weights},
                      .synthetic = there_op});
    expect_same_words(gpu_logits, logits.view(), "router's logit");
    expect_same_words(gpu_ids, ids.view(), "expert");
    expect_near(gpu_weights, weights.view(), 1e-6, "weights");
  }
}

}  // namespace
}  // namespace moetune::testing

#endif
