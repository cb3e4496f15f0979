// Every op on the GPU against the same op on the CPU, over odd sizes. Inputs of products are numbers that
// bf16 holds, so that only the order of summation differs.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/embed.h"
#include "kernels/expert_ffn.h"
#include "kernels/fill.h"
#include "kernels/gemm.h"
#include "kernels/kernel_path.h"
#include "kernels/mla_attention.h"
#include "kernels/number_convert.h"
#include "kernels/quantize.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/route.h"
#include "kernels/run.h"
#include "kernels/sample.h"
#include "kernels/swiglu.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

// Uniform in [-1, 1), rounded to bf16.
OwnedTensor bf16_floats(std::initializer_list<std::int64_t> shape, unsigned seed) {
  OwnedTensor tensor = random_floats(shape, seed);
  for (std::int64_t i = 0; i < tensor.view().elements(); ++i)
    tensor.view().f32()[i] = f32_from_bf16(bf16_from_f32(tensor.view().f32()[i]));
  return tensor;
}

class CudaOps : public GpuTest {
 protected:
  Device cpu_ = cpu();
};

TEST_F(CudaOps, RowWiseOps) {
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{1, 7}, {3, 52}, {5, 192}, {2, 2048}, {2, 7168}}) {
    const OwnedTensor x = random_floats({rows, width}, 1);
    const OwnedTensor weight = random_floats({width}, 2);
    const OwnedTensor y = random_floats({rows, width}, 3);
    const std::string size = std::to_string(rows) + "x" + std::to_string(width);
    const Tensor gx = there(x.view());
    const Tensor gy = there(y.view());
    const Tensor gw = there(weight.view());
    run(gpu(), Add{.x = gx, .y = gy});
    run(cpu_, Add{.x = x.view(), .y = y.view()});
    expect_near(gy, y.view(), 1e-6, "add " + size);
    run(gpu(), RmsNorm{.x = gx, .weight = gw, .y = gy, .eps = 1e-5F});
    run(cpu_, RmsNorm{.x = x.view(), .weight = weight.view(), .y = y.view(), .eps = 1e-5F});
    expect_near(gy, y.view(), 1e-5, "norm " + size);
    run(gpu(), SwiGlu{.gate = gx, .up = gy, .y = gy});
    run(cpu_, SwiGlu{.gate = x.view(), .up = y.view(), .y = y.view()});
    expect_near(gy, y.view(), 1e-5, "swiglu " + size);
    run(gpu(), Fill{.x = gy, .value = 2.5F});
    run(cpu_, Fill{.x = y.view(), .value = 2.5F});
    expect_near(gy, y.view(), 0.0, "fill " + size);
  }
}

TEST_F(CudaOps, Embedding) {
  const OwnedTensor tokens = ids({4, 0, 100, 100, 7});
  for (const NumberType type : {NumberType::f32, NumberType::f16, NumberType::bf16}) {
    const OwnedMatrix table = random_weights(type, 101, 52, 3);
    const OwnedTensor y = poisoned({5, 52});
    const Tensor gy = there(y.view());
    run(gpu(), Embed{.table = there(table.w, Packing::rows), .ids = there(tokens.view()), .y = gy});
    run(cpu_, Embed{.table = table.w, .ids = tokens.view(), .y = y.view()});
    expect_near(gy, y.view(), 0.0, std::string(name_of(type)));
  }
}

TEST_F(CudaOps, GemmInRows) {
  for (const NumberType type : {NumberType::f32, NumberType::f16, NumberType::bf16}) {
    const OwnedMatrix w = random_weights(type, 13, 77, 1);
    const OwnedTensor x = random_floats({5, 77}, 2);
    const OwnedTensor y = poisoned({5, 13});
    const Tensor gy = there(y.view());
    run(gpu(), Gemm{.x = there(x.view()), .w = there(w.w, Packing::rows), .y = gy});
    run(cpu_, Gemm{.x = x.view(), .w = w.w, .y = y.view()});
    expect_near(gy, y.view(), 1e-5, std::string(name_of(type)));
  }
}

TEST_F(CudaOps, GemmInTiles) {
  for (const NumberType type : kTileTypes)
    for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                  {13, 52},
                                  {16, 128},
                                  {101, 192},
                                  {64, 769},
                                  {9000, 64},
                                  {130, 2048}})
      for (const std::int64_t tokens : {1, 3, 5, 8, 9, 33, 64}) {
        const OwnedMatrix w = random_weights(type, out, in, 1);
        const OwnedTensor x = bf16_floats({tokens, in}, 2);
        const OwnedTensor bias = random_floats({out}, 3);
        const OwnedTensor y = random_floats({tokens, out}, 4);
        const Tensor gy = there(y.view());
        run(gpu(), Gemm{.x = there(x.view()),
                        .w = there(w.w, Packing::tiles),
                        .y = gy,
                        .bias = there(bias.view()),
                        .accumulate = true});
        run(cpu_, Gemm{.x = x.view(), .w = w.w, .y = y.view(), .bias = bias.view(), .accumulate = true});
        // f16 weights are rounded to bf16 on their way into the tensor cores; in large steps so is a weight
        // with its scale.
        const bool is_prompt = tokens >= kernel_path().least_prompt_tokens;
        const bool has_scale =
            type == NumberType::fp8 || type == NumberType::int4 || type == NumberType::int4_g32;
        // The values of int4 are multiplied with 136 on top, which is taken off the sums: five bits of the
        // f32 sums go with it.
        const double exact = type == NumberType::int4 || type == NumberType::int4_g32 ? 4e-6 : 2e-6;
        expect_near(gy, y.view(), type == NumberType::f16 || (is_prompt && has_scale) ? 4e-3 : exact,
                    std::string(name_of(type)) + " " + std::to_string(out) + "x" + std::to_string(in) + ", " +
                        std::to_string(tokens) + " tokens");
      }
}

TEST_F(CudaOps, RotaryEmbedding) {
  const OwnedTensor positions = ids({0, 1, 513, 100000});
  for (const bool interleaved : {false, true}) {
    const OwnedTensor x = random_floats({4, 3, 22}, 5);
    const RopeFrequencies frequencies = rope_frequencies(10000.0, 20);
    const OwnedTensor radians = filled(
        {10}, [&](std::int64_t i) { return frequencies.radians_per_position[static_cast<std::size_t>(i)]; });
    const Tensor gx = there(x.view());
    const auto op = [&](const Tensor& on, const Tensor& at, const Tensor& turn) {
      return Rope{.x = on.columns(2, 20),
                  .positions = at,
                  .frequencies = turn,
                  .scale = 1.25F,
                  .interleaved = interleaved};
    };
    run(gpu(), op(gx, there(positions.view()), there(radians.view())));
    run(cpu_, op(x.view(), positions.view(), radians.view()));
    expect_near(gx, x.view(), 1e-6, interleaved ? "interleaved" : "halves");
  }
}

struct Rule {
  RouteRule rule;
  std::int64_t experts;
  std::int64_t k;
  int groups;
  int kept;
};

TEST_F(CudaOps, RoutingIsExact) {
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

TEST_F(CudaOps, ExpertsInSlotsAndWaves) {
  constexpr std::int64_t kExperts = 9;
  for (const NumberType type : kTileTypes)
    for (const auto& [hidden, inner] :
         {std::pair<std::int64_t, std::int64_t>{52, 36}, {192, 64}, {128, 160}, {256, 768}})
      for (const std::int64_t tokens : {1, 2, 7, 12, 17, 40, 130}) {
        const ExpertLayout rows = ExpertLayout::of(type, hidden, inner);
        const ExpertLayout tiles = ExpertLayout::of(type, hidden, inner, Packing::tiles);
        Buffer slots(cpu_, rows.bytes * kExperts);
        std::vector<std::byte> packed(static_cast<std::size_t>(tiles.bytes * kExperts));
        Cpu packer(1);
        for (std::int64_t slot = 0; slot < kExperts; ++slot) {
          const auto part = [&](const MatrixLayout& matrix, std::int64_t from, std::int64_t to,
                                unsigned seed) {
            const OwnedTensor values =
                bf16_floats({matrix.out, matrix.in}, seed + static_cast<unsigned>(slot));
            std::byte* block = slots.data() + slot * rows.bytes + from;
            run(cpu_, Quantize{.x = values.view(), .y = block, .layout = matrix});
            pack_tiles(packer, {block, matrix}, packed.data() + slot * tiles.bytes + to);
          };
          part(rows.gate, 0, 0, 100);
          part(rows.up, rows.up_offset, tiles.up_offset, 200);
          part(rows.down, rows.down_offset, tiles.down_offset, 300);
        }
        Buffer gslots(gpu(), tiles.bytes * kExperts);
        copy_to_device(gpu(), packed.data(), gslots.data(), tiles.bytes * kExperts);

        std::mt19937 random(9);
        std::vector<std::int32_t> choice;
        for (std::int64_t token = 0; token < tokens; ++token) {  // expert 4 by nobody, expert 2 by everybody
          choice.push_back(2);
          choice.push_back(token % 7 == 3 ? -1 : random() % 2 == 0 ? 0 : 8);  // -1: no expert, its row stays
          choice.push_back(5 + static_cast<std::int32_t>(random() % 3));
        }
        const OwnedTensor chosen = ids({tokens, 3}, choice);
        const OwnedTensor x = bf16_floats({tokens, hidden}, 11);
        const OwnedTensor weights = random_floats({tokens, 3}, 12);
        const OwnedTensor result = filled({tokens, 3, hidden}, [](std::int64_t) { return 0.0F; });
        const OwnedTensor y = random_floats({tokens, hidden}, 13);
        const Tensor gx = there(x.view());
        const Tensor gchosen = there(chosen.view());
        const Tensor gresult = there(result.view());
        const Tensor gy = there(y.view());
        // Two waves: even experts, then odd ones; slot of expert e is 8 - e.
        for (const int wave : {0, 1}) {
          std::vector<std::int32_t> table;
          for (std::int32_t expert = 0; expert < kExperts; ++expert)
            table.push_back(expert % 2 == wave ? 8 - expert : -1);
          const OwnedTensor slot_of_expert = ids(table);
          run(gpu(), ExpertFfn{.x = gx,
                               .ids = gchosen,
                               .slot_of_expert = there(slot_of_expert.view()),
                               .slots = gslots.data(),
                               .layout = tiles,
                               .rows = gresult});
          run(cpu_, ExpertFfn{.x = x.view(),
                              .ids = chosen.view(),
                              .slot_of_expert = slot_of_expert.view(),
                              .slots = slots.data(),
                              .layout = rows,
                              .rows = result.view()});
        }
        const std::string what = std::string(name_of(type)) + " " + std::to_string(hidden) + "/" +
                                 std::to_string(inner) + ", " + std::to_string(tokens) + " tokens";
        expect_near(gresult, result.view(), 6e-3, what);  // activations are rounded to bf16 before down
        run(gpu(), Combine{.rows = gresult, .weights = there(weights.view()), .y = gy});
        run(cpu_, Combine{.rows = result.view(), .weights = weights.view(), .y = y.view()});
        expect_near(gy, y.view(), 6e-3, "combined " + what);
      }
}

TEST_F(CudaOps, AttentionOverTheCache) {
  struct Case {
    int heads;
    int kv_heads;
    std::int64_t dim;
    int window;
  };
  for (const NumberType type : {NumberType::f32, NumberType::f16, NumberType::bf16})
    for (const Case& c : {Case{3, 1, 12, 0}, Case{6, 3, 20, 5}, Case{8, 2, 64, 0}, Case{32, 4, 128, 0},
                          Case{40, 2, 128, 70}, Case{10, 2, 256, 100}})
      for (const std::int64_t context : {6, 700}) {
        const std::int64_t width = c.kv_heads * c.dim;
        const OwnedTensor keys = stored_as(type, random_floats({2, context, width}, 1).view());
        const OwnedTensor values = stored_as(type, random_floats({2, context, width}, 2).view());
        const OwnedTensor q = random_floats({4, c.heads, c.dim}, 3);
        const OwnedTensor sequences = ids({0, 1, 1, 0});
        const OwnedTensor positions =
            ids({0, static_cast<std::int32_t>(context - 1), 2, static_cast<std::int32_t>(context / 2)});
        const OwnedTensor y = poisoned({4, c.heads, c.dim});
        const Tensor gy = there(y.view());
        const auto op = [&](const Tensor& query, const Tensor& k, const Tensor& v, const Tensor& s,
                            const Tensor& p, const Tensor& to) {
          return Attention{.q = query,
                           .k_cache = k,
                           .v_cache = v,
                           .sequences = s,
                           .positions = p,
                           .y = to,
                           .kv_heads = c.kv_heads,
                           .scale = 0.3F,
                           .window = c.window};
        };
        run(gpu(), op(there(q.view()), there(keys.view()), there(values.view()), there(sequences.view()),
                      there(positions.view()), gy));
        run(cpu_, op(q.view(), keys.view(), values.view(), sequences.view(), positions.view(), y.view()));
        // Tensor cores take queries and weights as bf16.
        const bool is_rounded = type == NumberType::bf16 && (c.dim == 64 || c.dim == 128);
        expect_near(gy, y.view(), is_rounded ? 6e-3 : 2e-5,
                    std::string(name_of(type)) + " heads " + std::to_string(c.heads) + " context " +
                        std::to_string(context));
      }
}

TEST_F(CudaOps, StoringAndLatentAttention) {
  for (const auto& [heads, rank, rope] :
       {std::tuple<int, std::int64_t, std::int64_t>{3, 20, 6}, {6, 64, 16}, {5, 128, 64}, {16, 512, 64}}) {
    const std::int64_t context = 300;
    const std::int64_t width = rank + rope;
    const OwnedTensor cache = stored_as(NumberType::bf16, random_floats({2, context, width}, 1).view());
    const OwnedTensor fresh = random_floats({3, width}, 2);
    const OwnedTensor q_latent = random_floats({3, heads, rank}, 3);
    const OwnedTensor q_rope = random_floats({3, heads, rope}, 4);
    const OwnedTensor sequences = ids({1, 0, 1});
    const OwnedTensor positions = ids({299, 17, 3});
    const OwnedMatrix w = random_weights(NumberType::f32, heads * 7, rank, 5);
    const OwnedTensor y = poisoned({3, heads, rank});
    const OwnedTensor up = poisoned({3, heads, 7});
    const Tensor gy = there(y.view());
    const Tensor gup = there(up.view());
    const Tensor gcache = there(cache.view());
    const Tensor gs = there(sequences.view());
    const Tensor gp = there(positions.view());
    run(gpu(), StoreKv{.rows = there(fresh.view()), .sequences = gs, .positions = gp, .cache = gcache});
    run(cpu_, StoreKv{.rows = fresh.view(),
                      .sequences = sequences.view(),
                      .positions = positions.view(),
                      .cache = cache.view()});
    run(gpu(), MlaAttention{.q_latent = there(q_latent.view()),
                            .q_rope = there(q_rope.view()),
                            .cache = gcache,
                            .sequences = gs,
                            .positions = gp,
                            .y = gy,
                            .scale = 0.2F});
    run(cpu_, MlaAttention{.q_latent = q_latent.view(),
                           .q_rope = q_rope.view(),
                           .cache = cache.view(),
                           .sequences = sequences.view(),
                           .positions = positions.view(),
                           .y = y.view(),
                           .scale = 0.2F});
    const double tolerance = rank == 512 ? 6e-3 : 2e-5;  // tensor cores take queries and weights as bf16
    expect_near(gy, y.view(), tolerance, "rank " + std::to_string(rank));
    run(gpu(), PerHeadGemm{.x = gy, .w = there(w.w, Packing::rows), .y = gup});
    run(cpu_, PerHeadGemm{.x = y.view(), .w = w.w, .y = up.view()});
    expect_near(gup, up.view(), tolerance, "up " + std::to_string(rank));
  }
}

TEST_F(CudaOps, SamplingDrawsTheSameTokens) {
  const OwnedTensor logits = random_floats({9, 7003}, 8);  // several blocks a row
  for (int row = 0; row < 9; ++row)
    logits.view().f32()[row * 7003 + 6000] = logits.view().f32()[row * 7003 + 17] = 9.0F;  // ties
  const OwnedTensor keys = ids({0, 1, 2, 3, 4, 5, 6, 7, 1000000});
  for (const float temperature : {0.0F, 0.7F, 2.0F}) {
    OwnedTensor drawn(cpu_, NumberType::i32, {9});
    OwnedTensor result(cpu_, NumberType::i32, {9});
    const Tensor gdrawn = there(drawn.view());
    run(gpu(), Sample{.logits = there(logits.view()),
                      .keys = there(keys.view()),
                      .ids = gdrawn,
                      .temperature = temperature,
                      .seed = 99});
    run(cpu_, Sample{.logits = logits.view(),
                     .keys = keys.view(),
                     .ids = drawn.view(),
                     .temperature = temperature,
                     .seed = 99});
    back(gdrawn, result.view());
    for (int i = 0; i < 9; ++i)
      EXPECT_EQ(result.view().i32()[i], drawn.view().i32()[i]) << "row " << i << " at " << temperature;
  }
}

}  // namespace
}  // namespace moetune

#endif
