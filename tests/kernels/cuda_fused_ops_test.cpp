// Ops that are one kernel on a GPU where a step is small, against what they are composed of on the CPU: on
// both sides of every size at which another path is taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "kernels/expert_ffn.h"
#include "kernels/feed_forward.h"
#include "kernels/graph.h"
#include "kernels/next_tokens.h"
#include "kernels/norm_gemm.h"
#include "kernels/number_convert.h"
#include "kernels/place_heads.h"
#include "kernels/quantize.h"
#include "kernels/rope.h"
#include "kernels/router.h"
#include "kernels/run.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaFusedOps : public GpuTest {
 protected:
  Device cpu_ = cpu();
};

TEST_F(CudaFusedOps, NormAndProducts) {
  for (const NumberType type : kTileTypes)
    for (const std::int64_t in : {52, 192, 2048})
      for (const std::int64_t tokens : {1, 3, 8, 9, 33}) {
        const OwnedMatrix a = random_weights(type, 48, in, 1);
        const OwnedMatrix b = random_weights(type, 13, in, 2);
        const OwnedTensor x = random_floats({tokens, in}, 3);
        const OwnedTensor norm = random_floats({in}, 4);
        const OwnedTensor bias = random_floats({13}, 5);
        const OwnedTensor ya = poisoned({tokens, 48});
        const OwnedTensor yb = poisoned({tokens, 13});
        const OwnedTensor normed = poisoned({tokens, in});
        const Tensor ga = there(ya.view());
        const Tensor gb = there(yb.view());
        run(gpu(), NormGemm{.x = there(x.view()),
                            .norm = there(norm.view()),
                            .normed = there(normed.view()),
                            .eps = 1e-5F,
                            .parts = {{{.w = there(a.w, Packing::tiles), .y = ga},
                                       {.w = there(b.w, Packing::tiles), .bias = there(bias.view()), .y = gb},
                                       {}}}});
        run(cpu_,
            NormGemm{.x = x.view(),
                     .norm = norm.view(),
                     .normed = normed.view(),
                     .eps = 1e-5F,
                     .parts = {
                         {{.w = a.w, .y = ya.view()}, {.w = b.w, .bias = bias.view(), .y = yb.view()}, {}}}});
        const std::string what =
            std::string(name_of(type)) + " " + std::to_string(in) + ", " + std::to_string(tokens);
        expect_near(ga, ya.view(), 6e-3, what);  // activations are rounded to bf16
        expect_near(gb, yb.view(), 6e-3, what);
      }
}

TEST_F(CudaFusedOps, HeadsArePlaced) {
  for (const bool interleaved : {false, true})
    for (const auto& [heads, kv_heads, width] :
         {std::tuple<int, int, std::int64_t>{3, 1, 12}, {8, 2, 64}, {32, 4, 128}}) {
      const OwnedTensor q = random_floats({4, heads, width}, 1);
      const OwnedTensor k = random_floats({4, kv_heads, width}, 2);
      const OwnedTensor v = random_floats({4, kv_heads, width}, 3);
      const OwnedTensor norm = random_floats({width}, 4);
      const OwnedTensor keys = random_floats({2, 9, kv_heads * width}, 5);
      const OwnedTensor values = random_floats({2, 9, kv_heads * width}, 6);
      const OwnedTensor sequences = ids({0, 1, 1, 0});
      const OwnedTensor positions = ids({0, 8, 3, 5});
      const RopeFrequencies rope = rope_frequencies(10000.0, static_cast<int>(width));
      const OwnedTensor radians = filled({width / 2}, [&](std::int64_t i) {
        return rope.radians_per_position[static_cast<std::size_t>(i)];
      });
      const Tensor gq = there(q.view());
      const Tensor gk = there(k.view());
      const Tensor gkeys = there(keys.view());
      const Tensor gvalues = there(values.view());
      const auto op = [&](const Tensor& tq, const Tensor& tk, const Tensor& tv, const Tensor& n,
                          const Tensor& ck, const Tensor& cv, const Tensor& s, const Tensor& p,
                          const Tensor& f) {
        return PlaceHeads{.rows = {{{.x = tq, .norm = n, .rotated = 0},
                                    {.x = tk, .norm = n, .rotated = 0, .cache = ck},
                                    {.x = tv, .cache = cv}}},
                          .sequences = s,
                          .positions = p,
                          .frequencies = f,
                          .scale = 1.25F,
                          .interleaved = interleaved};
      };
      run(gpu(), op(gq, gk, there(v.view()), there(norm.view()), gkeys, gvalues, there(sequences.view()),
                    there(positions.view()), there(radians.view())));
      run(cpu_, op(q.view(), k.view(), v.view(), norm.view(), keys.view(), values.view(), sequences.view(),
                   positions.view(), radians.view()));
      expect_near(gq, q.view(), 1e-6, "q");
      expect_near(gkeys, keys.view(), 1e-6, "keys");
      expect_near(gvalues, values.view(), 0.0, "values");
    }
}

TEST_F(CudaFusedOps, LatentRowsArePlaced) {
  const OwnedTensor q = random_floats({3, 5, 30}, 1);
  const OwnedTensor row = random_floats({3, 1, 26}, 2);
  const OwnedTensor norm = random_floats({20}, 3);
  const OwnedTensor cache = random_floats({2, 9, 26}, 4);
  const OwnedTensor sequences = ids({1, 0, 1});
  const OwnedTensor positions = ids({8, 0, 3});
  const OwnedTensor radians = filled({3}, [](std::int64_t i) { return 1.0F / static_cast<float>(i + 1); });
  const Tensor gq = there(q.view());
  const Tensor gcache = there(cache.view());
  const auto op = [&](const Tensor& tq, const Tensor& tr, const Tensor& n, const Tensor& c, const Tensor& s,
                      const Tensor& p, const Tensor& f) {
    return PlaceHeads{
        .rows = {{{.x = tq, .rotated = 24}, {.x = tr, .norm = n, .rotated = 20, .cache = c}, {}}},
        .sequences = s,
        .positions = p,
        .frequencies = f,
        .interleaved = true};
  };
  run(gpu(), op(gq, there(row.view()), there(norm.view()), gcache, there(sequences.view()),
                there(positions.view()), there(radians.view())));
  run(cpu_, op(q.view(), row.view(), norm.view(), cache.view(), sequences.view(), positions.view(),
               radians.view()));
  expect_near(gq, q.view(), 1e-6, "q");
  expect_near(gcache, cache.view(), 1e-6, "cache");
}

TEST_F(CudaFusedOps, TheRouterPicksTheSameExperts) {
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

// Experts packed twice: rows for the CPU, tiles for the GPU.
struct Experts {
  ExpertLayout rows;
  ExpertLayout tiles;
  Buffer slots;
  std::vector<std::byte> packed;
};
Experts random_experts(Device& cpu, NumberType type, std::int64_t hidden, std::int64_t inner,
                       std::int64_t count) {
  Experts experts{
      ExpertLayout::of(type, hidden, inner), ExpertLayout::of(type, hidden, inner, Packing::tiles), {}, {}};
  experts.slots = Buffer(cpu, experts.rows.bytes * count);
  experts.packed.resize(static_cast<std::size_t>(experts.tiles.bytes * count));
  Cpu packer(1);
  for (std::int64_t slot = 0; slot < count; ++slot) {
    const auto part = [&](const MatrixLayout& matrix, std::int64_t from, std::int64_t to, unsigned seed) {
      const OwnedTensor values = random_floats({matrix.out, matrix.in}, seed + static_cast<unsigned>(slot));
      std::byte* block = experts.slots.data() + slot * experts.rows.bytes + from;
      run(cpu, Quantize{.x = values.view(), .y = block, .layout = matrix});
      pack_tiles(packer, {block, matrix}, experts.packed.data() + slot * experts.tiles.bytes + to);
    };
    part(experts.rows.gate, 0, 0, 100);
    part(experts.rows.up, experts.rows.up_offset, experts.tiles.up_offset, 200);
    part(experts.rows.down, experts.rows.down_offset, experts.tiles.down_offset, 300);
  }
  return experts;
}

// Few tokens keep sixteen bits of the activations; f16 weights become bf16 whatever the step.
double tolerance_for(NumberType type, std::int64_t tokens, std::int64_t few) {
  return tokens <= few && type != NumberType::f16 ? 3e-4 : 8e-3;
}

struct RoutedCase {
  std::int64_t k, tokens;
  bool drops = false;  // some choices are no expert: id -1, weight 0
};

// Shared experts beside the routed ones.
struct SharedCase {
  NumberType type;
  std::int64_t inner;
};

// The same op on a GPU and on a CPU, with random experts.
class CudaRoutedFfn : public CudaFusedOps {
 protected:
  void make_experts(NumberType type, std::int64_t hidden, std::int64_t inner, std::int64_t count) {
    experts_ = random_experts(cpu_, type, hidden, inner, count);
    count_ = count;
    slots_ = Buffer(gpu(), experts_.tiles.bytes * count);
    copy_to_device(gpu(), experts_.packed.data(), slots_.data(), experts_.tiles.bytes * count);
    table_.clear();
    for (std::int64_t expert = 0; expert < count; ++expert)
      table_.push_back(static_cast<std::int32_t>(count - 1 - expert));
  }

  void expect_same(const RoutedCase& at, double tolerance, const std::optional<SharedCase>& beside = {}) {
    const std::int64_t hidden = experts_.rows.gate.in;
    std::mt19937 random(9);
    std::vector<std::int32_t> choice;
    const OwnedTensor weights = random_floats({at.tokens, at.k}, 12);
    for (std::int64_t token = 0; token < at.tokens; ++token)
      for (std::int64_t i = 0, start = static_cast<std::int64_t>(random()) % count_; i < at.k; ++i) {
        const bool is_dropped = at.drops && i > 0 && static_cast<std::int64_t>(choice.size()) % 3 != 1;
        if (is_dropped) weights.view().f32()[choice.size()] = 0.0F;
        choice.push_back(is_dropped ? -1 : static_cast<std::int32_t>((token * 2 + i + start) % count_));
      }
    const OwnedTensor chosen = ids({at.tokens, at.k}, choice);
    const OwnedTensor slot_of_expert = ids(table_);
    const OwnedTensor x = random_floats({at.tokens, hidden}, 11);
    const OwnedTensor rows = poisoned({at.tokens, at.k, hidden});
    const OwnedTensor y = random_floats({at.tokens, hidden}, 13);
    const Tensor gy = there(y.view());
    const Tensor gx = there(x.view());
    const RoutedFfn on_gpu{.ffn = {.x = gx,
                                   .ids = there(chosen.view()),
                                   .slot_of_expert = there(slot_of_expert.view()),
                                   .slots = slots_.data(),
                                   .layout = experts_.tiles,
                                   .rows = there(rows.view())},
                           .weights = there(weights.view()),
                           .y = gy};
    const RoutedFfn on_cpu{.ffn = {.x = x.view(),
                                   .ids = chosen.view(),
                                   .slot_of_expert = slot_of_expert.view(),
                                   .slots = experts_.slots.data(),
                                   .layout = experts_.rows,
                                   .rows = rows.view()},
                           .weights = weights.view(),
                           .y = y.view()};
    std::string with;
    if (beside) {
      const OwnedMatrix gate = random_weights(beside->type, beside->inner, hidden, 21);
      const OwnedMatrix up = random_weights(beside->type, beside->inner, hidden, 22);
      const OwnedMatrix down = random_weights(beside->type, hidden, beside->inner, 23);
      const OwnedTensor gated = poisoned({at.tokens, beside->inner});
      const OwnedTensor upped = poisoned({at.tokens, beside->inner});
      run(gpu(), MoeFfn{.routed = on_gpu,
                        .shared = {.x = gx,
                                   .gate = there(gate.w, Packing::tiles),
                                   .up = there(up.w, Packing::tiles),
                                   .down = there(down.w, Packing::tiles),
                                   .gated = there(gated.view()),
                                   .upped = there(upped.view()),
                                   .y = gy}});
      run(cpu_, MoeFfn{.routed = on_cpu,
                       .shared = {.x = x.view(),
                                  .gate = gate.w,
                                  .up = up.w,
                                  .down = down.w,
                                  .gated = gated.view(),
                                  .upped = upped.view(),
                                  .y = y.view()}});
      with = ", beside them " + std::string(name_of(beside->type)) + " " + std::to_string(beside->inner);
    } else {
      run(gpu(), on_gpu);
      run(cpu_, on_cpu);
    }
    expect_near(gy, y.view(), tolerance,
                std::string(name_of(experts_.rows.gate.type)) + " " + std::to_string(hidden) + "/" +
                    std::to_string(experts_.rows.gate.out) + ", k " + std::to_string(at.k) + ", " +
                    std::to_string(at.tokens) + " tokens" + (at.drops ? ", some dropped" : "") + with);
  }

 private:
  Experts experts_;
  std::int64_t count_ = 0;
  Buffer slots_;
  std::vector<std::int32_t> table_;
};

TEST_F(CudaRoutedFfn, FewTokens) {
  for (const NumberType type : kTileTypes)
    for (const auto& [hidden, inner] :
         {std::pair<std::int64_t, std::int64_t>{52, 36}, {192, 64}, {256, 768}, {48, 2128}}) {
      make_experts(type, hidden, inner, 9);
      for (const std::int64_t k : {1, 2, 3, 8})
        for (const std::int64_t tokens : {1, 2, 9}) expect_same({k, tokens}, tolerance_for(type, tokens, 1));
    }
}

TEST_F(CudaRoutedFfn, SomeChoicesAreDropped) {
  for (const NumberType type : kTileTypes) {
    make_experts(type, 192, 64, 9);
    for (const std::int64_t k : {2, 3, 8})
      for (const std::int64_t tokens : {1, 2, 9})
        expect_same({k, tokens, true}, tolerance_for(type, tokens, 1));
  }
}

// More tiles than multiprocessors, of gate and up or of down; and a table of slots too long to be asked for
// at once.
TEST_F(CudaRoutedFfn, SeveralTilesABlock) {
  for (const NumberType type : {NumberType::bf16, NumberType::int8, NumberType::int4, NumberType::mxfp4}) {
    make_experts(type, 4096, 128, 4);
    for (const std::int64_t k : {1, 3}) expect_same({k, 1}, tolerance_for(type, 1, 1));
    make_experts(type, 64, 4096, 4);
    for (const std::int64_t k : {1, 3}) expect_same({k, 1}, tolerance_for(type, 1, 1));
    make_experts(type, 64, 32, 130);
    expect_same({8, 1}, tolerance_for(type, 1, 1));
  }
}

// Shared experts of the routed ones' type and of others, in the same launch or in their own: narrower and
// wider than one expert, with choices that are dropped, and for several tokens.
TEST_F(CudaRoutedFfn, SharedExpertsBesideThem) {
  for (const NumberType type : kTileTypes) {
    make_experts(type, 192, 96, 9);
    for (const NumberType shared_type : {type, NumberType::bf16, NumberType::int4})
      for (const std::int64_t inner : {36, 208})
        for (const std::int64_t k : {1, 6, 8})
          for (const std::int64_t tokens : {1, 2}) {
            const double tolerance =
                std::max(tolerance_for(type, tokens, 1), tolerance_for(shared_type, tokens, 4));
            expect_same({k, tokens, k == 6}, tolerance, SharedCase{shared_type, inner});
          }
  }
}

// The shapes for which it is done, cut down in one direction each: several tiles a block on both sides.
TEST_F(CudaRoutedFfn, SharedExpertsOfManyTiles) {
  for (const NumberType type : {NumberType::bf16, NumberType::int4}) {
    make_experts(type, 4096, 128, 4);
    expect_same({3, 1}, tolerance_for(type, 1, 1), SharedCase{NumberType::bf16, 256});
    make_experts(type, 64, 4096, 4);
    expect_same({3, 1}, tolerance_for(type, 1, 1), SharedCase{NumberType::bf16, 8192});
  }
}

// More tokens than decoding usually has, but few for every expert.
TEST_F(CudaRoutedFfn, ManyExperts) {
  for (const NumberType type : kTileTypes) {
    make_experts(type, 192, 96, 48);
    for (const std::int64_t tokens : {33, 47, 72, 73})
      for (const bool drops : {false, true}) expect_same({4, tokens, drops}, tolerance_for(type, tokens, 1));
  }
}

TEST_F(CudaFusedOps, DenseFeedForward) {
  for (const NumberType type : kTileTypes)
    for (const auto& [hidden, inner] :
         {std::pair<std::int64_t, std::int64_t>{52, 36}, {192, 64}, {128, 1000}})
      for (const std::int64_t tokens : {1, 2, 3, 4, 5, 8, 9}) {
        const OwnedMatrix gate = random_weights(type, inner, hidden, 1);
        const OwnedMatrix up = random_weights(type, inner, hidden, 2);
        const OwnedMatrix down = random_weights(type, hidden, inner, 3);
        const OwnedTensor x = random_floats({tokens, hidden}, 4);
        const OwnedTensor gated = poisoned({tokens, inner});
        const OwnedTensor upped = poisoned({tokens, inner});
        const OwnedTensor y = random_floats({tokens, hidden}, 5);
        const Tensor gy = there(y.view());
        run(gpu(), FeedForward{.x = there(x.view()),
                               .gate = there(gate.w, Packing::tiles),
                               .up = there(up.w, Packing::tiles),
                               .down = there(down.w, Packing::tiles),
                               .gated = there(gated.view()),
                               .upped = there(upped.view()),
                               .y = gy});
        run(cpu_, FeedForward{.x = x.view(),
                              .gate = gate.w,
                              .up = up.w,
                              .down = down.w,
                              .gated = gated.view(),
                              .upped = upped.view(),
                              .y = y.view()});
        expect_near(gy, y.view(), tolerance_for(type, tokens, 4),
                    std::string(name_of(type)) + " " + std::to_string(hidden) + "/" + std::to_string(inner) +
                        ", " + std::to_string(tokens) + " tokens");
      }
}

TEST_F(CudaFusedOps, AGraphFeedsItself) {
  const std::int64_t steps = 3;
  OwnedTensor state(gpu(), NumberType::i32, {2});
  OwnedTensor at(gpu(), NumberType::i32, {2});
  OwnedTensor keys(gpu(), NumberType::i32, {2});
  OwnedTensor inputs(gpu(), NumberType::i32, {2});
  const OwnedTensor sampled = ids({7, 9});
  const OwnedTensor forced = ids({steps, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor gsampled = there(sampled.view());
  const Tensor gforced = there(forced.view());
  SharedBuffer log_ids(gpu(), steps * 2 * 4);
  SharedBuffer log_ns(gpu(), (steps + 1) * 8);
  const std::int32_t begin[2] = {0, 1};
  const std::int32_t places[2] = {5, 6};
  copy_to_device(gpu(), begin, state.view().data(), 8);
  copy_to_device(gpu(), places, at.view().data(), 8);
  copy_to_device(gpu(), places, keys.view().data(), 8);
  auto* ns = reinterpret_cast<std::int64_t*>(log_ns.data());
  run(gpu(), StartClock{ns});
  const Graph graph(gpu(), [&] {
    run(gpu(), NextTokens{.state = state.view(),
                          .sampled = gsampled,
                          .forced = gforced,
                          .ids = inputs.view(),
                          .positions = at.view(),
                          .keys = keys.view(),
                          .log_ids = {log_ids.data(), NumberType::i32, {steps, 2}},
                          .log_ns = ns});
  });
  for (int step = 0; step < steps; ++step) graph.launch();
  wait_for(gpu());
  std::int32_t result[2];
  copy_to_host(gpu(), inputs.view().data(), result, 8);
  EXPECT_EQ(result[0], 5);
  EXPECT_EQ(result[1], 6);
  copy_to_host(gpu(), at.view().data(), result, 8);
  EXPECT_EQ(result[0], 8);
  EXPECT_EQ(result[1], 9);
  for (int step = 0; step < steps; ++step) {
    EXPECT_EQ(reinterpret_cast<const std::int32_t*>(log_ids.data())[2 * step + 1], 9);
    EXPECT_GT(ns[step + 1], ns[step]);
  }
}

}  // namespace
}  // namespace moetune

#endif
