// Microseconds per layer of a prompt on a GPU, op by op and together: layers of their own weights in one CUDA
// graph.
//
//   cuda_prefill_bench [shape ...] [tokens=64,4096] [type=bf16,int4] [layers=4] [path=best,portable,decoded]
//   [ops=moe,experts]
//
// shape: qwen3, mixtral, v3, v2lite or all. decoded: the kernels of small steps whatever the size. Prints
// TFLOP/s and GB/s of the weights that are touched.
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/expert_ffn.h"
#include "kernels/gemm.h"
#include "kernels/kernel_path.h"
#include "kernels/mla_attention.h"
#include "kernels/norm_gemm.h"
#include "kernels/place_heads.h"
#include "kernels/router.h"
#include "kernels/run.h"
#include "tests/bench/cuda_bench.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

struct Shape {
  const char* name;
  std::int64_t hidden, inner, experts, k, heads, kv_heads, head_dim;
  std::int64_t latent_heads = 0;  // MLA's, over 512 + 64 elements a position
};
constexpr Shape kShapes[] = {{"qwen3", 2048, 768, 128, 8, 32, 4, 128},
                             {"mixtral", 4096, 14336, 8, 2, 32, 8, 128},
                             {"v3", 7168, 2048, 256, 8, 0, 0, 0, 128},
                             {"v2lite", 2048, 1408, 64, 6, 0, 0, 0, 16}};

class Bench {
 public:
  Bench(const Shape& shape, NumberType type, std::int64_t tokens, int layers, std::vector<std::string> ops,
        std::string path)
      : shape_(shape),
        type_(type),
        tokens_(tokens),
        layers_(layers),
        ops_(std::move(ops)),
        path_(std::move(path)),
        device_(Cuda(0)) {
    std::mt19937 random(1);
    const std::int64_t q = shape.heads * shape.head_dim;
    const std::int64_t kv = shape.kv_heads * shape.head_dim;
    const auto f32 = [&](std::initializer_list<std::int64_t> dims) { return tensor(NumberType::f32, dims); };
    residual_ = f32({tokens, shape.hidden});
    y_ = f32({tokens, shape.hidden});  // not the residual: routing must stay as it is
    normed_ = f32({tokens, shape.hidden});
    logits_ = f32({tokens, shape.experts});
    ids_ = tensor(NumberType::i32, {tokens, shape.k});
    weights_ = f32({tokens, shape.k});
    rows_ = f32({tokens, shape.k, shape.hidden});
    norm_ = f32({shape.hidden});
    const std::vector<float> ones(static_cast<std::size_t>(shape.hidden), 1.0F);
    memory_.put(norm_, ones.data());
    std::vector<std::int32_t> table(static_cast<std::size_t>(shape.experts));
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
    table_ = tensor(NumberType::i32, {shape.experts});
    memory_.put(table_, table.data());
    std::vector<float> start(static_cast<std::size_t>(residual_.elements()));
    for (float& value : start) value = static_cast<float>(random() % 2001) * 1e-3F - 1.0F;
    memory_.put(residual_, start.data());
    if (shape.latent_heads > 0) {
      latent_ = f32({tokens, shape.latent_heads, 512});
      latent_rope_ = f32({tokens, shape.latent_heads, 64});
      latent_y_ = f32({tokens, shape.latent_heads, 512});
      latent_cache_ = tensor(NumberType::bf16, {1, tokens, 576});
    }
    std::vector<std::int32_t> at(static_cast<std::size_t>(tokens));
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = static_cast<std::int32_t>(i);
    positions_ = tensor(NumberType::i32, {tokens});
    sequences_ = tensor(NumberType::i32, {tokens});
    memory_.put(positions_, at.data());
    std::ranges::fill(at, 0);
    memory_.put(sequences_, at.data());
    if (q > 0) {
      q_ = f32({tokens, shape.heads, shape.head_dim});
      k_ = f32({tokens, shape.kv_heads, shape.head_dim});
      v_ = f32({tokens, shape.kv_heads, shape.head_dim});
      attended_ = f32({tokens, q});
      radians_ = f32({shape.head_dim / 2});
    }
    expert_ = ExpertLayout::of(type, shape.hidden, shape.inner, Packing::tiles);
    for (int layer = 0; layer < layers; ++layer) {
      Layer one;
      one.router = memory_.matrix(NumberType::bf16, shape.experts, shape.hidden, Packing::rows);
      one.experts = memory_.bytes(expert_.bytes * shape.experts);
      if (q > 0) {
        one.q = memory_.matrix(NumberType::bf16, q, shape.hidden);
        one.k = memory_.matrix(NumberType::bf16, kv, shape.hidden);
        one.v = memory_.matrix(NumberType::bf16, kv, shape.hidden);
        one.o = memory_.matrix(NumberType::bf16, shape.hidden, q);
        one.keys = tensor(NumberType::bf16, {1, tokens, kv});
        one.values = tensor(NumberType::bf16, {1, tokens, kv});
      }
      all_.push_back(one);
    }
  }

  void print() {
    const auto tokens = static_cast<double>(tokens_);
    const auto hidden = static_cast<double>(shape_.hidden);
    const double q = static_cast<double>(shape_.heads * shape_.head_dim);
    const double kv = static_cast<double>(shape_.kv_heads * shape_.head_dim);
    const double experts = 6.0 * tokens * static_cast<double>(shape_.k * shape_.inner) * hidden;
    const double expert_bytes = static_cast<double>(touched_experts()) * static_cast<double>(expert_.bytes);
    if (shape_.heads > 0) {
      row("qkv", 2.0 * tokens * hidden * (q + 2 * kv), 2.0 * hidden * (q + 2 * kv),
          [&](const Layer& l) { project(l); });
      row("place", 0.0, 0.0, [&](const Layer& l) { place(l); });
      row("attention", 2.0 * tokens * tokens * q, 0.0, [&](const Layer& l) { attend(l); });
      row("o", 2.0 * tokens * hidden * q, 2.0 * hidden * q, [&](const Layer& l) { output(l); });
    }
    if (shape_.latent_heads > 0)
      row("latent", tokens * tokens * static_cast<double>(shape_.latent_heads * (576 + 512)), 0.0,
          [&](const Layer&) { attend_latent(); });
    row("router", 2.0 * tokens * hidden * static_cast<double>(shape_.experts), 0.0,
        [&](const Layer& l) { route(l); });
    row("combine", 0.0, 4.0 * tokens * hidden * static_cast<double>(shape_.k),
        [&](const Layer&) { run(device_, Combine{.rows = rows_, .weights = weights_, .y = y_}); });
    row("experts", experts, expert_bytes, [&](const Layer& l) { run_experts(l); });
    row("moe", experts, expert_bytes, [&](const Layer& l) { route(l), run_experts(l); });
    if (shape_.heads > 0)
      row("layer", experts + 2.0 * tokens * hidden * (2 * q + 2 * kv) + 2.0 * tokens * tokens * q, 0.0,
          [&](const Layer& l) { project(l), place(l), attend(l), output(l), route(l), run_experts(l); });
  }

 private:
  struct Layer {
    WeightMatrix q, k, v, o, router;
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
  void place(const Layer& l) {
    const Tensor norm(norm_.data(), NumberType::f32, {shape_.head_dim});
    run(device_, PlaceHeads{.rows = {{{.x = q_, .norm = norm, .rotated = 0},
                                      {.x = k_, .norm = norm, .rotated = 0, .cache = l.keys},
                                      {.x = v_, .cache = l.values}}},
                            .sequences = sequences_,
                            .positions = positions_,
                            .frequencies = radians_});
  }
  void attend(const Layer& l) {
    run(device_, Attention{.q = q_,
                           .k_cache = l.keys,
                           .v_cache = l.values,
                           .sequences = sequences_,
                           .positions = positions_,
                           .y = attended_.reshaped({tokens_, shape_.heads, shape_.head_dim}),
                           .kv_heads = static_cast<int>(shape_.kv_heads),
                           .scale = 0.1F,
                           .runs = 1});
  }
  void attend_latent() {
    run(device_, MlaAttention{.q_latent = latent_,
                              .q_rope = latent_rope_,
                              .cache = latent_cache_,
                              .sequences = sequences_,
                              .positions = positions_,
                              .y = latent_y_,
                              .scale = 0.1F,
                              .runs = 1});
  }
  void output(const Layer& l) { run(device_, Gemm{.x = attended_, .w = l.o, .y = y_, .accumulate = true}); }
  void route(const Layer& l) {
    run(device_, Router{.x = residual_,
                        .norm = norm_,
                        .normed = normed_,
                        .w = l.router,
                        .route = {.logits = logits_, .ids = ids_, .weights = weights_}});
  }
  void run_experts(const Layer& l) {
    run(device_, RoutedFfn{.ffn = {.x = normed_,
                                   .ids = ids_,
                                   .slot_of_expert = table_,
                                   .slots = l.experts,
                                   .layout = expert_,
                                   .rows = rows_},
                           .weights = weights_,
                           .y = y_});
  }

  std::int64_t touched_experts() {
    route(all_.front());
    std::vector<std::int32_t> ids(static_cast<std::size_t>(ids_.elements()));
    copy_to_host(device_, ids_.data(), ids.data(), static_cast<std::int64_t>(ids.size() * 4));
    std::ranges::sort(ids);
    return std::unique(ids.begin(), ids.end()) - ids.begin();
  }

  template <class Body>
  void row(const char* name, double flops, double bytes, const Body& body) {
    if (!ops_.empty() && std::ranges::find(ops_, name) == ops_.end()) return;
    const double median = bench::microseconds(device_, all_, 7, body);
    std::printf("%-8s %-8s %-8s T=%-5lld %-10s %9.1f us %7.1f TFLOP/s %7.0f GB/s\n", shape_.name,
                std::string(name_of(type_)).c_str(), path_.c_str(), static_cast<long long>(tokens_), name,
                median, flops / median * 1e-6, bytes / median * 1e-3);
    std::fflush(stdout);
  }

  Shape shape_;
  NumberType type_;
  std::int64_t tokens_;
  int layers_;
  std::vector<std::string> ops_;
  std::string path_;
  Device device_;
  bench::Memory memory_{device_, 0.03F};
  std::vector<Layer> all_;
  ExpertLayout expert_;
  Tensor residual_, y_, normed_, q_, k_, v_, attended_, logits_, ids_, weights_, rows_, norm_, radians_,
      positions_, sequences_, table_, latent_, latent_rope_, latent_y_, latent_cache_;
};

void take_path(const std::string& name) {
  KernelPath path;
  if (name == "portable")
    path.is_portable = true;
  else if (name == "decoded")
    path.least_prompt_tokens = 1 << 30;
  else if (name == "split")
    path.most_split_tokens = 1 << 30;
  else if (name == "whole")
    path.most_split_tokens = 0;
  else if (name != "best")
    throw std::invalid_argument("path \"" + name + "\" (accepted: best, portable, decoded, split, whole)");
  if (name != "decoded") path.least_prompt_tokens = 2, path.most_many_tokens = 0, path.most_sliced_tokens = 0;
  set_kernel_path(path);
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  using namespace moetune;
  std::vector<std::string> names;
  std::vector<std::string> tokens{"4096"};
  std::vector<std::string> types{"bf16"};
  std::vector<std::string> paths{"best"};
  std::vector<std::string> ops;
  int layers = 4;
  return bench::run_main([&] {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      const std::size_t equals = argument.find('=');
      const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
      if (argument.starts_with("tokens="))
        tokens = bench::split(value);
      else if (argument.starts_with("type="))
        types = bench::split(value);
      else if (argument.starts_with("path="))
        paths = bench::split(value);
      else if (argument.starts_with("ops="))
        ops = bench::split(value);
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
            for (const std::string& path : paths) {
              take_path(path);
              Bench(shape, number_type_named(type).value(), std::stoll(count), layers, ops, path).print();
            }
  });
}

#else
int main() { return moetune::bench::without_cuda(); }
#endif
