#include "engine/bench/op_bench.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/attention_layer.h"
#include "engine/bench/layer_ops.h"
#include "engine/bench/op_bench_model.h"
#include "engine/dense_shapes.h"
#include "engine/facts/error.h"
#include "engine/facts/size_text.h"
#include "engine/option_rules.h"
#include "engine/stopwatch.h"
#include "kernels/fill.h"
#include "kernels/graph.h"
#include "kernels/next_tokens.h"
#include "kernels/read_memory.h"
#include "kernels/run.h"
#include "kernels/tensor_rate.h"

namespace moetune {
namespace {

constexpr double warm_up_share = 0.25;  // of the time for an op, on runs of further layers that do not count

}  // namespace

double fill_seconds(double most_seconds, double spent_seconds) {
  return std::max(most_seconds - spent_seconds, most_seconds / 3.0);
}

OpBench::OpBench(const std::shared_ptr<const Checkpoint>& checkpoint, const EngineOptions& options,
                 const OpBenchSetup& setup)
    : setup_(setup), options_(options) {
  const Stopwatch watch;
  const std::vector<std::string> accepted = op_names(checkpoint->spec());
  for (const std::string& op : setup.ops)
    if (std::ranges::find(accepted, op) == accepted.end())
      throw InputError("--op", fmt::format("'{}' is no op of {}", op, checkpoint->spec().name),
                       fmt::format("{}", fmt::join(accepted, ", ")));
  checkpoint_ = fitted(checkpoint, options, setup);
  spec_ = &checkpoint_->spec();
  if (const auto objection = objection_to_options(*spec_, options, limits_of(setup)))
    throw InputError(objection->knob, objection->found, objection->accepted);
  make_rank(options);
  std::mt19937 random(static_cast<unsigned>(setup.seed));
  std::normal_distribution<float> normal;
  start_.resize(static_cast<std::size_t>(setup.tokens * spec_->hidden));
  for (float& value : start_) value = normal(random);
  if (asks_for(setup.ops, "read")) make_read_block();
  if (std::ranges::any_of(setup.ops, reads_cache))
    fill_kv_cache(fill_seconds(setup.most_seconds, watch.seconds()));
}

OpBench::~OpBench() = default;

void OpBench::make_rank(const EngineOptions& options) {
  const EngineLimits limits = limits_of(setup_);
  const Cpu cpu(options.cpu_threads);
#if MOETUNE_HAS_CUDA
  rank_ = std::make_unique<Rank>(cpu, options.device == DeviceKind::cuda ? Device(Cuda(0)) : Device(cpu));
#else
  rank_ = std::make_unique<Rank>(cpu, Device(cpu));
#endif
  Rank& rank = *rank_;
  rank.spec = spec_;
  rank.shard = {0, 1};
  rank.top_k = effective_top_k(*spec_, options);
  rank.weights = load_weights(rank.device, rank.host, *checkpoint_, options, rank.shard);
  if (spec_->moe_layer_count() > 0) {
    rank.store =
        std::make_unique<ExpertStore>(checkpoint_, rank.shard, expert_layout(*spec_, options, rank.shard));
    rank.cache = std::make_unique<ExpertCache>(
        rank.device, rank.host, *rank.store,
        SlotDirectory::Shape{.layers = spec_->moe_layer_count(),
                             .experts = spec_->experts,
                             .slots = static_cast<int>(cache_slots(*spec_, options)),
                             .policy = options.cache_policy});
  }
  rank.kv = KvCache(rank.device,
                    KvCache::Shape::of(*spec_, options, rank.shard, limits.sequences, limits.context_tokens));
  rank.scratch =
      make_scratch(rank.device, scratch_items(*spec_, rank.shard, limits.step_tokens, limits.logit_rows));
}

// Random words, so that nothing of the path to memory can compress them.
void OpBench::make_read_block() {
  read_block_ = Buffer(rank_->device, setup_.wanted_layers * setup_.read_bytes);
  read_sum_ = OwnedTensor(rank_->device, NumberType::i32, {1});
  std::vector<std::uint32_t> pattern(
      static_cast<std::size_t>(std::min(setup_.read_bytes, std::int64_t{16} << 20)) / sizeof(std::uint32_t));
  std::mt19937 random(static_cast<unsigned>(setup_.seed));
  std::ranges::generate(pattern, std::ref(random));
  const auto bytes = static_cast<std::int64_t>(pattern.size() * sizeof(std::uint32_t));
  for (std::int64_t at = 0; at < read_block_.bytes(); at += bytes)
    copy_to_device(rank_->device, pattern.data(), read_block_.data() + at,
                   std::min(bytes, read_block_.bytes() - at));
}

void OpBench::place_tokens(std::int64_t tokens) {
  std::vector<std::int32_t> sequences;
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < tokens; ++i) {
    sequences.push_back(setup_.is_prompt ? 0 : static_cast<std::int32_t>(i));
    positions.push_back(
        static_cast<std::int32_t>(setup_.is_prompt ? setup_.context - tokens + i : setup_.context - 1));
  }
  copy_to_device(rank_->device, sequences.data(), rank_->scratch.sequences.view().data(), tokens * 4);
  copy_to_device(rank_->device, positions.data(), rank_->scratch.positions.view().data(), tokens * 4);
}

// By way of the layers themselves, a chunk of a sequence at a time, so that every type of cache holds what it
// would.
void OpBench::fill_kv_cache(double most_seconds) {
  Rank& rank = *rank_;
  const EngineLimits limits = limits_of(setup_);
  const std::int64_t hidden = spec_->hidden;
  std::vector<float> rows(static_cast<std::size_t>(kFillTokens * hidden));
  std::mt19937 random(static_cast<unsigned>(setup_.seed + 1));
  std::normal_distribution<float> normal;
  for (float& value : rows) value = normal(random);
  const std::int64_t chunks = limits.sequences * ((setup_.context + kFillTokens - 1) / kFillTokens);
  std::int64_t filled = 0;
  const Stopwatch watch;
  for (int sequence = 0; sequence < limits.sequences; ++sequence)
    for (std::int64_t begin = 0; begin < setup_.context; begin += kFillTokens, ++filled) {
      const double all_seconds =
          filled == 0 ? 0.0 : watch.seconds() / static_cast<double>(filled) * static_cast<double>(chunks);
      if (all_seconds > most_seconds && (filled > 1 || watch.seconds() > most_seconds))
        throw InputError(
            "--tokens",
            fmt::format("{}: filling the KV cache of {} sequences with {} tokens each takes about "
                        "{} s, more than the {} s that --budget leaves for it",
                        setup_.tokens, limits.sequences, setup_.context, three_digits(all_seconds),
                        three_digits(most_seconds)),
            "fewer tokens, a smaller --context, or a larger --budget");
      const std::int64_t count = std::min(kFillTokens, setup_.context - begin);
      std::vector<std::int32_t> positions(static_cast<std::size_t>(count));
      for (std::int64_t i = 0; i < count; ++i)
        positions[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(begin + i);
      const std::vector<std::int32_t> sequences(static_cast<std::size_t>(count), sequence);
      copy_to_device(rank.device, sequences.data(), rank.scratch.sequences.view().data(), count * 4);
      copy_to_device(rank.device, positions.data(), rank.scratch.positions.view().data(), count * 4);
      copy_to_device(rank.device, rows.data(), rank.scratch.residual.view().data(), count * hidden * 4);
      rank.runs = 1;
      for (int layer = 0; layer < spec_->layers; ++layer)
        attend(rank, rank.weights.layers[static_cast<std::size_t>(layer)], layer, count, false);
    }
}

void OpBench::set_residual(std::int64_t tokens) {
  copy_to_device(rank_->device, start_.data(), rank_->scratch.residual.view().data(),
                 tokens * spec_->hidden * 4);
}

std::vector<BenchLayer> OpBench::layers_for(const std::string& op) const {
  const bool routes = op != "dense" && spec_->moe_layer_count() > 0;
  std::vector<BenchLayer> layers;
  int moe_index = 0;
  for (int layer = 0; layer < spec_->layers; ++layer) {
    const bool is_moe = spec_->moe_layers[static_cast<std::size_t>(layer)];
    const bool fits_op = op == "read" || op == "head" || is_moe == routes;
    if (fits_op && std::ssize(layers) < setup_.wanted_layers) layers.push_back({layer, moe_index});
    moe_index += is_moe ? 1 : 0;
  }
  if (op == "head") layers.resize(1);  // there is one
  while (op == "read" && std::ssize(layers) < setup_.wanted_layers)
    layers.push_back({static_cast<int>(layers.size()), 0});
  return layers;
}

// What an op takes for given is there, from the ops before it in a layer.
void OpBench::run_before(const std::string& op, const BenchLayer& layer, std::int64_t tokens) {
  if (op == "attention") run_op("attention_half", layer, tokens);
  if (op == "experts" || op == "shared") run_op("router", layer, tokens);
}

void OpBench::run_op(const std::string& op, const BenchLayer& layer, std::int64_t tokens) {
  if (op != "read") return run_layer_op(*rank_, op, layer, tokens, setup_.is_prompt);
  const std::int64_t bytes = setup_.read_bytes;
  const auto offset = static_cast<std::int64_t>(layer.index % setup_.wanted_layers) * bytes;
  run(rank_->device,
      ReadMemory{.data = read_block_.data() + offset, .bytes = bytes, .sum = read_sum_.view()});
}

// What is read last is what a cache holds.
void OpBench::flush_caches() {
  if (flush_block_.bytes() == 0) {
    flush_block_ = Buffer(rank_->device, setup_.cold_bytes / 16 * 16);
    // Written once: memory that nobody has written may be one page that stands for all.
    run(rank_->device,
        Fill{.x = Tensor(flush_block_.data(), NumberType::f32, {flush_block_.bytes() / 4}), .value = 1.0F});
    if (read_sum_.bytes() == 0) read_sum_ = OwnedTensor(rank_->device, NumberType::i32, {1});
  }
  run(rank_->device,
      ReadMemory{.data = flush_block_.data(), .bytes = flush_block_.bytes(), .sum = read_sum_.view()});
}

void OpBench::poison(const std::string& op, std::int64_t tokens) {
  for (const Tensor& tensor : outputs_of(*rank_, op, tokens))
    run(rank_->device, Fill{.x = tensor, .value = std::numeric_limits<float>::quiet_NaN()});
  set_residual(tokens);
}

void OpBench::check_outputs(const std::string& op, std::int64_t tokens) {
  std::vector<Tensor> tensors = outputs_of(*rank_, op, tokens);
  tensors.push_back(first_rows(rank_->scratch.residual, {tokens, spec_->hidden}));
  std::vector<float> values;
  for (const Tensor& tensor : tensors) {
    values.resize(static_cast<std::size_t>(tensor.elements()));
    copy_to_host(rank_->device, tensor.data(), values.data(), tensor.elements() * 4);
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
      throw std::runtime_error(fmt::format("op {} of {} with {} tokens left an output that is not finite", op,
                                           spec_->name, tokens));
  }
  if (op == "read" || op == "attention" || op == "router" || op == "head") return;
  // values: the residual stream, to which the op has added something in every row.
  const auto width = static_cast<std::ptrdiff_t>(spec_->hidden);
  for (std::ptrdiff_t row = 0; row < tokens; ++row)
    if (std::equal(values.begin() + row * width, values.begin() + (row + 1) * width,
                   start_.begin() + row * width))
      throw std::runtime_error(
          fmt::format("op {} of {} with {} tokens left row {} as it was", op, spec_->name, tokens, row));
}

double OpBench::tensor_flops() {
#if MOETUNE_HAS_CUDA
  if (auto* cuda = std::get_if<Cuda>(&rank_->device)) return measured_tensor_flops(*cuda);
#endif
  return 0.0;
}

// Distinct experts of the layer that ran last.
double OpBench::experts_chosen(std::int64_t tokens) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * rank_->top_k));
  copy_to_host(rank_->device, rank_->scratch.expert_ids.view().data(), ids.data(), std::ssize(ids) * 4);
  return static_cast<double>(std::set<std::int32_t>(ids.begin(), ids.end()).size());
}

OpCost OpBench::cost_of(const std::string& op, const BenchLayer& layer, const OpWork& work) const {
  if (op == "read") return {static_cast<double>(setup_.read_bytes), 0.0};
  return op_cost(op, *spec_, options_, layer.index, work);
}

// Each layer runs once, so that memory has grown before a graph is recorded, and in the order of the graph,
// so that the experts are those that will be timed. What comes after warm_up_share of the time is left out.
void OpBench::warm_up(OpTiming& timing, std::vector<BenchLayer>& layers, double spent_seconds,
                      double most_seconds) {
  const std::string& op = timing.op;
  const bool routes =
      op == "experts" || op == "routed" || op == "moe" || (op == "layer" && spec_->moe_layer_count() > 0);
  OpWork work{.tokens = timing.tokens, .context = setup_.context, .is_prompt = setup_.is_prompt};
  double experts = 0.0;
  OpCost sum;
  const Stopwatch watch;
  for (const BenchLayer& layer : layers) {
    if (timing.layers > 0 && spent_seconds + watch.seconds() > warm_up_share * most_seconds) {
      timing.has_fewer_layers = true;
      break;
    }
    run_op(op, layer, timing.tokens);
    wait_for(rank_->device);
    if (++timing.layers == 1) timing.first_seconds = watch.seconds();
    if (routes) work.experts_touched = experts_chosen(timing.tokens);
    const OpCost cost = cost_of(op, layer, work);
    experts += work.experts_touched;
    sum = {sum.bytes + cost.bytes, sum.flops + cost.flops};
  }
  layers.resize(static_cast<std::size_t>(timing.layers));
  timing.experts_touched = experts / timing.layers;
  timing.cost = {sum.bytes / timing.layers, sum.flops / timing.layers};
}

OpTiming OpBench::time(const std::string& op, std::int64_t tokens, int runs, double most_seconds) {
  if (tokens < 1 || tokens > setup_.tokens)
    throw std::logic_error("op bench: more tokens than it was set up for");
  Rank& rank = *rank_;
  std::vector<BenchLayer> layers = layers_for(op);
  place_tokens(tokens);
  const Stopwatch watch;
  OpTiming timing;
  timing.op = op;
  timing.tokens = tokens;
  SharedBuffer clock(rank.device, 2 * static_cast<std::int64_t>(sizeof(std::int64_t)));
  auto* ns = reinterpret_cast<std::int64_t*>(clock.data());
  set_residual(tokens);
  run_before(op, layers.front(), tokens);
  wait_for(rank.device);
  warm_up(timing, layers, watch.seconds(), most_seconds);
  timing.is_flushed = timing.cost.bytes * timing.layers < static_cast<double>(setup_.cold_bytes);
  if (timing.first_seconds > most_seconds) return timing;
  const DenseCounts before = dense_counts();
  run_op(op, layers.front(), tokens);
  timing.dense = {dense_counts().own - before.own, dense_counts().cublas - before.cublas};
  const Graph graph(rank.device, [&] {
    run(rank.device, StartClock{ns});
    for (const BenchLayer& layer : layers) run_op(op, layer, tokens);
    run(rank.device, StartClock{ns + 1});
  });
  for (int i = 0; i < runs && (i == 0 || watch.seconds() < most_seconds); ++i) {
    poison(op, tokens);
    if (timing.is_flushed) flush_caches();
    graph.launch();
    wait_for(rank.device);
    timing.microseconds.push_back(1e-3 * static_cast<double>(ns[1] - ns[0]) / timing.layers);
  }
  check_outputs(op, tokens);
  return timing;
}

}  // namespace moetune
