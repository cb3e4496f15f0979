// Microseconds per layer of decoding on a GPU, op by op and together: 16 layers of their own weights in one
// CUDA graph, so that no weight is in the L2 cache when it is read.
//
//   cuda_layer_bench [shape ...] [tokens=1,32] [type=bf16,int4] [context=512] [layers=16] [rows=experts,moe]
//
// shape: qwen3, mixtral, v2lite, gptoss or all. Prints bytes, microseconds and the share of READ_GB_S for
// each.
#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/expert_ffn.h"
#include "kernels/feed_forward.h"
#include "kernels/gemm.h"
#include "kernels/norm_gemm.h"
#include "kernels/placed_attention.h"
#include "kernels/router.h"
#include "kernels/run.h"
#include "tests/bench/cuda_bench.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

constexpr double kReadGbPerS = 4470.0;  // of this bench's card; shares are of this

struct Shape {
  const char* name;
  std::int64_t hidden, inner, experts, k, heads, kv_heads, head_dim, shared;
};
constexpr Shape kShapes[] = {{"qwen3", 2048, 768, 128, 8, 32, 4, 128, 0},
                             {"mixtral", 4096, 14336, 8, 2, 32, 8, 128, 0},
                             {"v2lite", 2048, 1408, 64, 6, 16, 16, 128, 2816},
                             {"gptoss", 2880, 2880, 128, 4, 64, 8, 64, 0}};

class Bench {
 public:
  // rows: what is measured; empty: everything.
  Bench(const Shape& shape, NumberType type, std::int64_t tokens, std::int64_t context, int layers,
        std::vector<std::string> rows)
      : shape_(shape),
        type_(type),
        tokens_(tokens),
        context_(context),
        layers_(layers),
        measured_(std::move(rows)),
        device_(Cuda(0)) {
    std::mt19937 random(1);
    const std::int64_t q = shape.heads * shape.head_dim;
    const std::int64_t kv = shape.kv_heads * shape.head_dim;
    const auto f32 = [&](std::initializer_list<std::int64_t> dims) { return tensor(NumberType::f32, dims); };
    residual_ = f32({tokens, shape.hidden});
    normed_ = f32({tokens, shape.hidden});
    q_ = f32({tokens, shape.heads, shape.head_dim});
    k_ = f32({tokens, shape.kv_heads, shape.head_dim});
    v_ = f32({tokens, shape.kv_heads, shape.head_dim});
    attended_ = f32({tokens, q});
    logits_ = f32({tokens, shape.experts});
    ids_ = tensor(NumberType::i32, {tokens, shape.k});
    weights_ = f32({tokens, shape.k});
    rows_ = f32({tokens, shape.k, shape.hidden});
    gated_ = f32({tokens, std::max<std::int64_t>(1, shape.shared)});
    upped_ = f32({tokens, std::max<std::int64_t>(1, shape.shared)});
    norm_ = f32({std::max(shape.hidden, shape.head_dim)});
    std::vector<float> ones(static_cast<std::size_t>(norm_.elements()), 1.0F);
    memory_.put(norm_, ones.data());
    radians_ = f32({shape.head_dim / 2});
    std::vector<std::int32_t> at(static_cast<std::size_t>(tokens), static_cast<std::int32_t>(context - 1));
    std::vector<std::int32_t> slots(at.size());
    std::vector<std::int32_t> table(static_cast<std::size_t>(shape.experts));
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(i);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
    positions_ = tensor(NumberType::i32, {tokens});
    sequences_ = tensor(NumberType::i32, {tokens});
    table_ = tensor(NumberType::i32, {shape.experts});
    memory_.put(positions_, at.data());
    memory_.put(sequences_, slots.data());
    memory_.put(table_, table.data());
    std::vector<float> start(static_cast<std::size_t>(residual_.elements()));
    for (float& value : start) value = static_cast<float>(random() % 2001) * 1e-3F - 1.0F;
    memory_.put(residual_, start.data());
    expert_ = ExpertLayout::of(type, shape.hidden, shape.inner, Packing::tiles);
    for (int layer = 0; layer < layers; ++layer) {
      Layer one;
      one.q = memory_.matrix(NumberType::bf16, q, shape.hidden);
      one.k = memory_.matrix(NumberType::bf16, kv, shape.hidden);
      one.v = memory_.matrix(NumberType::bf16, kv, shape.hidden);
      one.o = memory_.matrix(NumberType::bf16, shape.hidden, q);
      one.router = memory_.matrix(NumberType::bf16, shape.experts, shape.hidden, Packing::rows);
      one.keys = tensor(NumberType::bf16, {tokens, context, kv});
      one.values = tensor(NumberType::bf16, {tokens, context, kv});
      one.experts = memory_.bytes(expert_.bytes * shape.experts);
      if (shape.shared > 0) {
        one.gate = memory_.matrix(NumberType::bf16, shape.shared, shape.hidden);
        one.up = memory_.matrix(NumberType::bf16, shape.shared, shape.hidden);
        one.down = memory_.matrix(NumberType::bf16, shape.hidden, shape.shared);
      }
      all_.push_back(one);
    }
  }

  void print() {
    const std::int64_t touched = touched_experts();
    const double q = static_cast<double>(shape_.heads * shape_.head_dim);
    const double kv = static_cast<double>(shape_.kv_heads * shape_.head_dim);
    const double hidden = static_cast<double>(shape_.hidden);
    const double qkv_bytes = 2.0 * hidden * (q + 2.0 * kv);
    const double kv_bytes = 4.0 * kv * static_cast<double>(context_ * tokens_);
    const double router_bytes = 2.0 * hidden * static_cast<double>(shape_.experts);
    const double expert_bytes = static_cast<double>(touched) * static_cast<double>(expert_.bytes);
    const double shared_bytes = 6.0 * hidden * static_cast<double>(shape_.shared);
    row("qkv", qkv_bytes, [&](const Layer& l) { project(l); });
    row("place", 0.0, [&](const Layer& l) { run(device_, placing(l)); });
    row("attention", kv_bytes, [&](const Layer& l) { attend(l); });
    row("o", 2.0 * hidden * q, [&](const Layer& l) { output(l); });
    row("router", router_bytes, [&](const Layer& l) { route(l); });
    row("experts", expert_bytes, [&](const Layer& l) { run(device_, routed(l)); });
    row("moe", router_bytes + expert_bytes, [&](const Layer& l) { route(l), run(device_, routed(l)); });
    if (shape_.shared > 0) row("shared", shared_bytes, [&](const Layer& l) { run(device_, shared(l)); });
    if (shape_.shared > 0)
      row("moe+shared", router_bytes + expert_bytes + shared_bytes,
          [&](const Layer& l) { route(l), both(l); });
    row("attn+o", kv_bytes + 2.0 * hidden * q, [&](const Layer& l) { attend(l), output(l); });
    row("layer", qkv_bytes + kv_bytes + 2.0 * hidden * q + router_bytes + expert_bytes + shared_bytes,
        [&](const Layer& l) { project(l), attend(l), output(l), route(l), both(l); });
  }

 private:
  struct Layer {
    WeightMatrix q, k, v, o, router, gate, up, down;
    Tensor keys, values;
    std::byte* experts = nullptr;
  };

  Tensor tensor(NumberType type, std::initializer_list<std::int64_t> dims) {
    return memory_.tensor(type, dims);
  }
  void project(const Layer& l) {
    run(device_,
        NormGemm{.x = residual_,
                 .norm = norm_,
                 .normed = normed_,
                 .parts = {{{.w = l.q, .y = q_.reshaped({tokens_, shape_.heads * shape_.head_dim})},
                            {.w = l.k, .y = k_.reshaped({tokens_, shape_.kv_heads * shape_.head_dim})},
                            {.w = l.v, .y = v_.reshaped({tokens_, shape_.kv_heads * shape_.head_dim})}}}});
  }
  PlaceHeads placing(const Layer& l) const {
    const Tensor norm(norm_.data(), NumberType::f32, {shape_.head_dim});
    return {.rows = {{{.x = q_, .norm = norm, .rotated = 0},
                      {.x = k_, .norm = norm, .rotated = 0, .cache = l.keys},
                      {.x = v_, .cache = l.values}}},
            .sequences = sequences_,
            .positions = positions_,
            .frequencies = radians_};
  }
  Attention attention(const Layer& l) const {
    return {.q = q_,
            .k_cache = l.keys,
            .v_cache = l.values,
            .sequences = sequences_,
            .positions = positions_,
            .y = attended_.reshaped({tokens_, shape_.heads, shape_.head_dim}),
            .kv_heads = static_cast<int>(shape_.kv_heads),
            .scale = 0.1F};
  }
  // As a decoding engine does it: one op.
  void attend(const Layer& l) {
    run(device_, PlacedAttention{.place = placing(l), .attention = attention(l), .is_one_each = true});
  }
  void output(const Layer& l) {
    run(device_, Gemm{.x = attended_, .w = l.o, .y = residual_, .accumulate = true});
  }
  void route(const Layer& l) {
    run(device_, Router{.x = residual_,
                        .norm = norm_,
                        .normed = normed_,
                        .w = l.router,
                        .route = {.logits = logits_, .ids = ids_, .weights = weights_},
                        .is_before_shared = shape_.shared > 0});
  }
  RoutedFfn routed(const Layer& l) const {
    return {.ffn = {.x = normed_,
                    .ids = ids_,
                    .slot_of_expert = table_,
                    .slots = l.experts,
                    .layout = expert_,
                    .rows = rows_},
            .weights = weights_,
            .y = residual_};
  }
  FeedForward shared(const Layer& l) const {
    return {.x = normed_,
            .gate = l.gate,
            .up = l.up,
            .down = l.down,
            .gated = gated_,
            .upped = upped_,
            .y = residual_};
  }
  // The experts as a model runs them: with the shared ones where it has any.
  void both(const Layer& l) {
    if (shape_.shared == 0) return run(device_, routed(l));
    run(device_, MoeFfn{.routed = routed(l), .shared = shared(l)});
  }

  std::int64_t touched_experts() {
    route(all_.front());
    std::vector<std::int32_t> ids(static_cast<std::size_t>(ids_.elements()));
    copy_to_host(device_, ids_.data(), ids.data(), static_cast<std::int64_t>(ids.size() * 4));
    std::ranges::sort(ids);
    return std::unique(ids.begin(), ids.end()) - ids.begin();
  }

  template <class Body>
  void row(const char* name, double bytes, const Body& body) {
    if (!measured_.empty() && std::ranges::find(measured_, name) == measured_.end()) return;
    const double median = bench::microseconds(device_, all_, 12, body);
    std::printf("%-8s %-8s T=%-3lld %-10s %8.2f us %9.2f MB %5.1f %%\n", shape_.name,
                std::string(name_of(type_)).c_str(), static_cast<long long>(tokens_), name, median,
                bytes * 1e-6, 100.0 * bytes / (median * kReadGbPerS * 1e3));
  }

  Shape shape_;
  NumberType type_;
  std::int64_t tokens_;
  std::int64_t context_;
  int layers_;
  std::vector<std::string> measured_;
  Device device_;
  bench::Memory memory_{device_, 0.03F};
  std::vector<Layer> all_;
  ExpertLayout expert_;
  Tensor residual_, normed_, q_, k_, v_, attended_, logits_, ids_, weights_, rows_, gated_, upped_, norm_,
      radians_, positions_, sequences_, table_;
};

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  using namespace moetune;
  std::vector<std::string> names;
  std::vector<std::string> tokens{"1"};
  std::vector<std::string> types{"bf16"};
  std::vector<std::string> rows;
  std::int64_t context = 512;
  int layers = 16;
  return bench::run_main([&] {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      const std::size_t equals = argument.find('=');
      const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
      if (argument.starts_with("tokens="))
        tokens = bench::split(value);
      else if (argument.starts_with("type="))
        types = bench::split(value);
      else if (argument.starts_with("rows="))
        rows = bench::split(value);
      else if (argument.starts_with("context="))
        context = std::stoll(value);
      else if (argument.starts_with("layers="))
        layers = std::stoi(value);
      else
        names.push_back(argument);
    }
    for (const Shape& shape : kShapes)
      if (std::ranges::find(names, shape.name) != names.end() ||
          std::ranges::find(names, "all") != names.end())
        for (const std::string& type : types)
          for (const std::string& count : tokens)
            Bench(shape, number_type_named(type).value(), std::stoll(count), context, layers, rows).print();
  });
}

#else
int main() { return moetune::bench::without_cuda(); }
#endif
