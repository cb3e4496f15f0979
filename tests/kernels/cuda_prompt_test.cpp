// Steps of many tokens on the GPU against the same op on the CPU, with the kernels of this GPU and with the
// portable ones, with activations in one part and in two. Sizes are odd; inputs are numbers that bf16 holds.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "kernels/attention.h"
#include "kernels/dense_choice.h"
#include "kernels/expert_ffn.h"
#include "kernels/feed_forward.h"
#include "kernels/gemm.h"
#include "kernels/graph.h"
#include "kernels/kernel_path.h"
#include "kernels/mla_attention.h"
#include "kernels/norm_gemm.h"
#include "kernels/number_convert.h"
#include "kernels/quantize.h"
#include "kernels/run.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

OwnedTensor bf16_floats(std::initializer_list<std::int64_t> shape, unsigned seed) {
  OwnedTensor tensor = random_floats(shape, seed);
  for (std::int64_t i = 0; i < tensor.view().elements(); ++i)
    tensor.view().f32()[i] = f32_from_bf16(bf16_from_f32(tensor.view().f32()[i]));
  return tensor;
}

struct Path {
  const char* name;
  KernelPath path;
};
// From two tokens on, so that small sizes are tested too.
constexpr Path kPaths[] = {{"best",
                            {.is_portable = false,
                             .least_prompt_tokens = 2,
                             .most_many_tokens = 0,
                             .most_split_tokens = 0,
                             .most_sliced_tokens = 0,
                             .dense = DenseChoice::own}},
                           {"best, two parts",
                            {.is_portable = false,
                             .least_prompt_tokens = 2,
                             .most_many_tokens = 0,
                             .most_split_tokens = 1 << 30,
                             .most_sliced_tokens = 0,
                             .dense = DenseChoice::own}},
                           {"portable",
                            {.is_portable = true,
                             .least_prompt_tokens = 2,
                             .most_many_tokens = 0,
                             .most_split_tokens = 0,
                             .most_sliced_tokens = 0,
                             .dense = DenseChoice::own}},
                           {"portable, two parts",
                            {.is_portable = true,
                             .least_prompt_tokens = 2,
                             .most_many_tokens = 0,
                             .most_split_tokens = 1 << 30,
                             .most_sliced_tokens = 0,
                             .dense = DenseChoice::own}},
                           {"cuBLAS",
                            {.is_portable = false,
                             .least_prompt_tokens = 2,
                             .most_many_tokens = 0,
                             .most_split_tokens = 0,
                             .most_sliced_tokens = 0,
                             .dense = DenseChoice::cublas}}};

bool uses_cublas(const Path& path) { return path.path.dense == DenseChoice::cublas; }
// Says so: a test that leaves it out has tested less.
bool is_left_out(const Path& path) {
  if (!uses_cublas(path) || why_no_cublas().empty()) return false;
  std::printf("cuBLAS is left out: %s\n", why_no_cublas().c_str());
  return true;
}

// Weights with a scale are rounded to bf16 with it, f16 as such; an int8 row's scale meets the sums, but not
// cuBLAS's.
double rounding_of(NumberType type, const Path& path) {
  if (type == NumberType::int8) return uses_cublas(path) ? 4e-3 : 2e-6;
  return type == NumberType::bf16 || type == NumberType::mxfp4 ? 2e-6 : 4e-3;
}

class CudaPrompt : public GpuTest {
 protected:
  void TearDown() override { set_kernel_path(KernelPath{}); }
  Device cpu_ = cpu();
};

TEST_F(CudaPrompt, Products) {
  for (const NumberType type : kTileTypes)
    for (const auto& [out, in] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {13, 52}, {101, 192}, {300, 769}, {130, 2048}})
      for (const std::int64_t tokens : {2, 9, 33, 140, 175, 300, 530}) {
        const OwnedMatrix w = random_weights(type, out, in, 1);
        const OwnedTensor x = bf16_floats({tokens, in}, 2);
        const OwnedTensor bias = random_floats({out}, 3);
        const OwnedTensor start = random_floats({tokens, out}, 4);
        const OwnedTensor y = random_floats({tokens, out}, 4);
        run(cpu_, Gemm{.x = x.view(), .w = w.w, .y = y.view(), .bias = bias.view(), .accumulate = true});
        const Tensor gx = there(x.view());
        const WeightMatrix gw = there(w.w, Packing::tiles);
        const Tensor gbias = there(bias.view());
        for (const Path& path : kPaths) {
          if (is_left_out(path)) continue;
          set_kernel_path(path.path);
          const Tensor gy = there(start.view());
          const DenseCounts before = dense_counts();
          run(gpu(), Gemm{.x = gx, .w = gw, .y = gy, .bias = gbias, .accumulate = true});
          EXPECT_EQ(dense_counts().cublas - before.cublas, uses_cublas(path) ? 1 : 0);
          EXPECT_EQ(dense_counts().own - before.own, uses_cublas(path) ? 0 : 1);
          expect_near(gy, y.view(), rounding_of(type, path),
                      std::string(path.name) + " " + std::string(name_of(type)) + " " + std::to_string(out) +
                          "x" + std::to_string(in) + ", " + std::to_string(tokens) + " tokens");
        }
      }
}

// Two parts keep what bf16 would lose.
TEST_F(CudaPrompt, TwoPartsKeepSixteenBits) {
  const OwnedMatrix w = random_weights(NumberType::bf16, 70, 500, 1);
  const OwnedTensor x = random_floats({90, 500}, 2);
  const OwnedTensor y = poisoned({90, 70});
  run(cpu_, Gemm{.x = x.view(), .w = w.w, .y = y.view()});
  for (const Path& path : kPaths) {
    if (is_left_out(path)) continue;
    set_kernel_path(path.path);
    const Tensor gy = there(y.view());
    run(gpu(), Gemm{.x = there(x.view()), .w = there(w.w, Packing::tiles), .y = gy});
    expect_near(gy, y.view(), path.path.most_split_tokens > 0 ? 2e-5 : 4e-3, path.name);
  }
}

TEST_F(CudaPrompt, NormAndThreeProducts) {
  const std::int64_t tokens = 150;
  const std::int64_t in = 320;
  const OwnedTensor x = random_floats({tokens, in}, 1);
  const OwnedTensor norm = random_floats({in}, 2);
  const OwnedTensor normed = poisoned({tokens, in});
  const OwnedTensor bias = random_floats({40}, 3);
  std::vector<OwnedMatrix> w;
  std::vector<OwnedTensor> y;
  for (const std::int64_t out : {200, 40, 136}) {
    w.push_back(random_weights(NumberType::bf16, out, in, static_cast<unsigned>(out)));
    y.push_back(poisoned({tokens, out}));
  }
  run(cpu_, NormGemm{.x = x.view(),
                     .norm = norm.view(),
                     .normed = normed.view(),
                     .parts = {{{.w = w[0].w, .y = y[0].view()},
                                {.w = w[1].w, .bias = bias.view(), .y = y[1].view()},
                                {.w = w[2].w, .y = y[2].view()}}}});
  for (const Path& path : kPaths) {
    if (is_left_out(path)) continue;
    set_kernel_path(path.path);
    const Tensor g[] = {there(y[0].view()), there(y[1].view()), there(y[2].view())};
    run(gpu(),
        NormGemm{.x = there(x.view()),
                 .norm = there(norm.view()),
                 .normed = there(normed.view()),
                 .parts = {{{.w = there(w[0].w, Packing::tiles), .y = g[0]},
                            {.w = there(w[1].w, Packing::tiles), .bias = there(bias.view()), .y = g[1]},
                            {.w = there(w[2].w, Packing::tiles), .y = g[2]}}}});
    for (std::size_t i = 0; i < 3; ++i)
      expect_near(g[i], y[i].view(), path.path.most_split_tokens > 0 ? 2e-5 : 4e-3,
                  path.name + std::string(", product ") + std::to_string(i));
  }
}

// Results side by side are one product of cuBLAS's, and biases find their columns; others are products of
// their own. Recorded into a graph, the sums are the same bits.
TEST_F(CudaPrompt, ProductsSideBySideByCublas) {
  const Path& path = kPaths[4];
  ASSERT_TRUE(uses_cublas(path));
  if (!why_no_cublas().empty()) GTEST_SKIP() << "no cuBLAS: " << why_no_cublas();
  set_kernel_path(path.path);
  const std::int64_t tokens = 150;
  const std::int64_t in = 332;
  const OwnedTensor x = random_floats({tokens, in}, 1);
  const OwnedTensor norm = random_floats({in}, 2);
  const OwnedTensor normed = poisoned({tokens, in});
  const OwnedTensor bias = random_floats({37}, 3);
  for (const bool is_joined : {true, false}) {
    const std::int64_t begin[] = {0, 101, is_joined ? 138 : 140};
    const std::int64_t width[] = {101, 37, 96};
    const auto op = [&](const Tensor& from, const Tensor& by, const Tensor& between, const Tensor& added,
                        const std::vector<WeightMatrix>& w, const Tensor& to) {
      const auto part = [&](std::size_t i) { return to.columns(begin[i], width[i]); };
      return NormGemm{.x = from,
                      .norm = by,
                      .normed = between,
                      .parts = {{{.w = w[0], .y = part(0)},
                                 {.w = w[1], .bias = added, .y = part(1)},
                                 {.w = w[2], .y = part(2)}}}};
    };
    std::vector<OwnedMatrix> owned;
    std::vector<WeightMatrix> w;
    std::vector<WeightMatrix> gw;
    for (const std::int64_t out : width) {
      owned.push_back(random_weights(NumberType::int4, out, in, static_cast<unsigned>(out)));
      w.push_back(owned.back().w);
      gw.push_back(there(owned.back().w, Packing::tiles));
    }
    const OwnedTensor y = filled({tokens, 240}, [](std::int64_t) { return 7.0F; });  // also between the parts
    const Tensor gy = there(y.view());
    const Tensor again = there(y.view());
    run(cpu_, op(x.view(), norm.view(), normed.view(), bias.view(), w, y.view()));
    const Tensor gx = there(x.view());
    const Tensor gnorm = there(norm.view());
    const Tensor gnormed = there(normed.view());
    const Tensor gbias = there(bias.view());
    run(gpu(), op(gx, gnorm, gnormed, gbias, gw, gy));
    expect_near(gy, y.view(), 6e-3, is_joined ? "joined" : "apart");
    const Graph graph(gpu(), [&] { run(gpu(), op(gx, gnorm, gnormed, gbias, gw, again)); });
    graph.launch();
    const OwnedTensor eager = poisoned({tokens, 240});
    const OwnedTensor recorded = poisoned({tokens, 240});
    back(gy, eager.view());
    back(again, recorded.view());
    expect_same_bits(recorded.view(), eager.view(), "recorded");
  }
}

// Experts by nobody, by everybody, in two waves, more columns than an item takes.
TEST_F(CudaPrompt, ExpertsInSlotsAndWaves) {
  constexpr std::int64_t kExperts = 9;
  for (const NumberType type : kTileTypes)
    for (const auto& [hidden, inner] : {std::pair<std::int64_t, std::int64_t>{52, 36}, {192, 64}, {256, 736}})
      for (const std::int64_t tokens : {2, 40, 300, 700}) {
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
        const OwnedTensor result = filled({tokens, 3, hidden}, [](std::int64_t) { return 0.0F; });
        const Tensor gx = there(x.view());
        const Tensor gchosen = there(chosen.view());
        // Two waves: even experts, then odd ones; slot of expert e is 8 - e.
        std::vector<Tensor> tables;
        for (const int wave : {0, 1}) {
          std::vector<std::int32_t> table;
          for (std::int32_t expert = 0; expert < kExperts; ++expert)
            table.push_back(expert % 2 == wave ? 8 - expert : -1);
          const OwnedTensor slot_of_expert = ids(table);
          tables.push_back(there(slot_of_expert.view()));
          run(cpu_, ExpertFfn{.x = x.view(),
                              .ids = chosen.view(),
                              .slot_of_expert = slot_of_expert.view(),
                              .slots = slots.data(),
                              .layout = rows,
                              .rows = result.view()});
        }
        for (const Path& path : kPaths) {
          set_kernel_path(path.path);
          const OwnedTensor zeros = filled({tokens, 3, hidden}, [](std::int64_t) { return 0.0F; });
          const Tensor gresult = there(zeros.view());
          for (const Tensor& table : tables)
            run(gpu(), ExpertFfn{.x = gx,
                                 .ids = gchosen,
                                 .slot_of_expert = table,
                                 .slots = gslots.data(),
                                 .layout = tiles,
                                 .rows = gresult});
          const bool is_exact = path.path.most_split_tokens > 0 && rounding_of(type, path) < 1e-3;
          expect_near(gresult, result.view(), is_exact ? 3e-5 : 8e-3,
                      std::string(path.name) + " " + std::string(name_of(type)) + " " +
                          std::to_string(hidden) + "/" + std::to_string(inner) + ", " +
                          std::to_string(tokens) + " tokens");
        }
      }
}

TEST_F(CudaPrompt, FeedForwardOfAllTokens) {
  for (const NumberType type : {NumberType::bf16, NumberType::int8, NumberType::int4_g32}) {
    const std::int64_t tokens = 260;
    const OwnedMatrix gate = random_weights(type, 200, 96, 1);
    const OwnedMatrix up = random_weights(type, 200, 96, 2);
    const OwnedMatrix down = random_weights(type, 96, 200, 3);
    const OwnedTensor x = bf16_floats({tokens, 96}, 4);
    const OwnedTensor gated = poisoned({tokens, 200});
    const OwnedTensor upped = poisoned({tokens, 200});
    const OwnedTensor start = random_floats({tokens, 96}, 5);
    const OwnedTensor y = random_floats({tokens, 96}, 5);
    run(cpu_, FeedForward{.x = x.view(),
                          .gate = gate.w,
                          .up = up.w,
                          .down = down.w,
                          .gated = gated.view(),
                          .upped = upped.view(),
                          .y = y.view()});
    for (const Path& path : kPaths) {
      if (is_left_out(path)) continue;
      set_kernel_path(path.path);
      const Tensor gy = there(start.view());
      const OwnedTensor between = poisoned({tokens, 400});
      const Tensor side_by_side = there(between.view());
      const DenseCounts before = dense_counts();
      run(gpu(), FeedForward{.x = there(x.view()),
                             .gate = there(gate.w, Packing::tiles),
                             .up = there(up.w, Packing::tiles),
                             .down = there(down.w, Packing::tiles),
                             .gated = side_by_side.columns(0, 200),
                             .upped = side_by_side.columns(200, 200),
                             .y = gy});
      EXPECT_EQ(dense_counts().cublas - before.cublas, uses_cublas(path) ? 3 : 0) << path.name;
      EXPECT_EQ(dense_counts().own - before.own, uses_cublas(path) ? 0 : 3) << path.name;
      expect_near(gy, y.view(), 8e-3, std::string(path.name) + " " + std::string(name_of(type)));
    }
  }
}

TEST_F(CudaPrompt, RowsOfARouter) {
  for (const NumberType type : {NumberType::f32, NumberType::f16, NumberType::bf16})
    for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{8, 77}, {130, 512}, {40, 100}}) {
      const OwnedMatrix w = random_weights(type, out, in, 1);
      const OwnedTensor x = random_floats({150, in}, 2);
      const OwnedTensor y = poisoned({150, out});
      const Tensor gy = there(y.view());
      run(gpu(), Gemm{.x = there(x.view()), .w = there(w.w, Packing::rows), .y = gy});
      run(cpu_, Gemm{.x = x.view(), .w = w.w, .y = y.view()});
      expect_near(gy, y.view(), 1e-6,
                  std::string(name_of(type)) + " " + std::to_string(out) + "x" + std::to_string(in));
    }
}

// Ends of several prompts in one step, with and without a window; a block has 128 tokens, a tile 64 keys.
TEST_F(CudaPrompt, AttentionOfRuns) {
  struct Part {
    int sequence;
    int first;  // position
    int tokens;
  };
  const std::vector<std::vector<Part>> steps = {
      {{0, 0, 300}}, {{1, 413, 129}}, {{0, 0, 40}, {2, 100, 60}, {1, 3, 100}, {0, 590, 1}, {2, 0, 70}}};
  const std::int64_t context = 640;
  for (const auto& [heads, kv_heads, dim] :
       {std::tuple<int, int, std::int64_t>{4, 2, 64}, {6, 1, 128}, {3, 3, 128}})
    for (const int window : {0, 70})
      for (const std::vector<Part>& step : steps) {
        std::vector<std::int32_t> slots;
        std::vector<std::int32_t> at;
        for (const Part& part : step)
          for (int i = 0; i < part.tokens; ++i) slots.push_back(part.sequence), at.push_back(part.first + i);
        const auto tokens = static_cast<std::int64_t>(at.size());
        const OwnedTensor keys =
            stored_as(NumberType::bf16, random_floats({3, context, kv_heads * dim}, 1).view());
        const OwnedTensor values =
            stored_as(NumberType::bf16, random_floats({3, context, kv_heads * dim}, 2).view());
        const OwnedTensor q = random_floats({tokens, heads, dim}, 3);
        const OwnedTensor sequences = ids(slots);
        const OwnedTensor positions = ids(at);
        const OwnedTensor y = poisoned({tokens, heads, dim});
        const auto op = [&, kv = kv_heads](const Tensor& query, const Tensor& k, const Tensor& v,
                                           const Tensor& s, const Tensor& p, const Tensor& to) {
          return Attention{.q = query,
                           .k_cache = k,
                           .v_cache = v,
                           .sequences = s,
                           .positions = p,
                           .y = to,
                           .kv_heads = kv,
                           .scale = 0.3F,
                           .window = window,
                           .runs = static_cast<int>(step.size())};
        };
        run(cpu_, op(q.view(), keys.view(), values.view(), sequences.view(), positions.view(), y.view()));
        for (const Path& path : kPaths) {
          set_kernel_path(path.path);
          const OwnedTensor poison = poisoned({tokens, heads, dim});
          const Tensor gy = there(poison.view());
          run(gpu(), op(there(q.view()), there(keys.view()), there(values.view()), there(sequences.view()),
                        there(positions.view()), gy));
          expect_near(gy, y.view(), path.path.most_split_tokens > 0 ? 5e-5 : 6e-3,
                      std::string(path.name) + ", " + std::to_string(heads) + " heads of " +
                          std::to_string(dim) + ", window " + std::to_string(window) + ", " +
                          std::to_string(tokens) + " tokens");
        }
      }
}

TEST_F(CudaPrompt, LatentAttentionOfRuns) {
  const std::int64_t context = 200;
  for (const int heads : {3, 16}) {
    std::vector<std::int32_t> slots;
    std::vector<std::int32_t> at;
    for (const auto& [sequence, first, tokens] :
         {std::tuple<int, int, int>{0, 0, 45}, {1, 130, 70}, {0, 45, 2}})
      for (int i = 0; i < tokens; ++i) slots.push_back(sequence), at.push_back(first + i);
    const auto tokens = static_cast<std::int64_t>(at.size());
    const OwnedTensor cache = stored_as(NumberType::bf16, random_floats({2, context, 576}, 1).view());
    const OwnedTensor q_latent = random_floats({tokens, heads, 512}, 2);
    const OwnedTensor q_rope = random_floats({tokens, heads, 64}, 3);
    const OwnedTensor sequences = ids(slots);
    const OwnedTensor positions = ids(at);
    const OwnedTensor y = poisoned({tokens, heads, 512});
    const auto op = [&](const Tensor& latent, const Tensor& rope, const Tensor& rows, const Tensor& s,
                        const Tensor& p, const Tensor& to) {
      return MlaAttention{.q_latent = latent,
                          .q_rope = rope,
                          .cache = rows,
                          .sequences = s,
                          .positions = p,
                          .y = to,
                          .scale = 0.1F,
                          .runs = 3};
    };
    const Tensor gy = there(y.view());
    run(cpu_, op(q_latent.view(), q_rope.view(), cache.view(), sequences.view(), positions.view(), y.view()));
    run(gpu(), op(there(q_latent.view()), there(q_rope.view()), there(cache.view()), there(sequences.view()),
                  there(positions.view()), gy));
    expect_near(gy, y.view(), 6e-3, std::to_string(heads) + " heads");
  }
}

}  // namespace
}  // namespace moetune

#endif
