// Measured in the shape in which the engine pays: layers of a few small ops, in one graph, and again with
// what a miss adds between them. What the host adds cuts the graph, so that its launches are part of the
// cost. Start at measure_miss_costs().
#include "engine/miss_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "engine/dense_shapes.h"
#include "engine/expert_cache.h"
#include "engine/folding.h"
#include "engine/option_rules.h"
#include "engine/pinned_pool.h"
#include "engine/shard.h"
#include "kernels/buffer.h"
#include "kernels/expert_ffn.h"
#include "kernels/fetch_experts.h"
#include "kernels/fill.h"
#include "kernels/graph.h"
#include "kernels/graph_pieces.h"
#include "kernels/next_tokens.h"
#include "kernels/parallel_for.h"
#include "kernels/run.h"
#include "kernels/slot_memory.h"

namespace moetune {
namespace {

constexpr int kLayers = 12;
constexpr int kOpsOfLayer = 8;  // small ones, as many as a layer's own
constexpr int kRuns = 7;
constexpr int kFewestRuns = 3;         // of a processor that is slow: one thread takes 0.1 s for a layer
constexpr double kLongEnough = 0.5e6;  // us
constexpr std::int64_t kMostBytesPerLayer = std::int64_t{256} << 20;
constexpr std::int64_t kBeyondCaches = std::int64_t{512} << 20;

// What a layer costs that misses nothing, one expert, and several.
struct Points {
  double none = 0.0;
  double one = 0.0;
  double several = 0.0;
};

MissCosts::Way way_of(const Points& us, int several) {
  MissCosts::Way way{.layer_us = us.none, .missing_layer_us = 0.0, .miss_us = us.one - us.none};
  if (several > 1) way.miss_us = (us.several - us.one) / (several - 1);
  way.missing_layer_us = us.one - us.none - way.miss_us;
  return way;
}

class MissBench {
 public:
  MissBench(Device& device, Cpu& host, const ExpertsOutside& experts)
      : device_(device),
        host_(host),
        experts_(experts),
        several_(static_cast<int>(
            std::clamp<std::int64_t>(std::min(kMostBytesPerLayer / experts.layout.bytes, experts.blocks / 2),
                                     1, std::min(4, experts.k)))),
        clock_(device, 2 * sizeof(std::int64_t)),
        ids_(device, NumberType::i32, {1, experts.k}),
        table_(device, NumberType::i32, {1024}),
        x_(device, NumberType::f32, {1, experts.layout.gate.in}),
        rows_(device, NumberType::f32, {several_, experts.layout.gate.in}),
        slots_(device, several_ * experts.layout.bytes) {
    if (experts.blocks < 2)
      throw std::invalid_argument("the cost of a miss needs at least two experts to take turns");
    const std::vector<std::int32_t> zeros(static_cast<std::size_t>(std::max(experts.k, 1024)));
    copy_to_device(device, zeros.data(), ids_.view().data(), ids_.bytes());
    copy_to_device(device, zeros.data(), table_.view().data(), table_.bytes());
    small_ops();
    run(device_, StartClock{clock()});
    wait_for(device_);
    plain_us_ = graph_us([](int) {});
  }

  MissCosts::Way dma() {
    const auto cost = [&](int missing) {
      return pieces_us([this, missing](int layer) {
        ask();
        if (missing > 0) copy_to_device(device_, host_table_.data(), table_.view().data(), table_.bytes());
        for (int i = 0; i < missing; ++i)
          copy_to_device(device_, block(layer, i), slots_.data() + i * experts_.layout.bytes,
                         experts_.layout.bytes);
      });
    };
    return way_of({cost(0), cost(1), cost(several_)}, several_);
  }

  MissCosts::Way pull() {
    return way_of({look_up_us(experts_.k, false), look_up_us(1, true), look_up_us(several_, true)}, several_);
  }

  MissCosts::Way cpu() {
    const std::int64_t bytes = experts_.host_layout.bytes;
    const auto count = static_cast<std::int32_t>(std::max<std::int64_t>(2 * several_, kBeyondCaches / bytes));
    Device memory = host_;
    const Buffer weights(memory, count * bytes);
    host_.pool().parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
      std::fill(weights.data() + begin * bytes, weights.data() + end * bytes, std::byte{0x3C});
    });
    std::vector<std::int32_t> table(static_cast<std::size_t>(count));
    std::iota(table.begin(), table.end(), 0);
    const std::int64_t hidden = experts_.layout.gate.in;
    std::vector<float> x(static_cast<std::size_t>(hidden));
    std::vector<float> rows(static_cast<std::size_t>(several_ * hidden));
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(several_));
    std::int32_t next = 0;
    const auto cost = [&](int missing) {
      return pieces_us([&, missing](int) {
        ask();
        if (missing == 0) return;
        copy_to_host(device_, x_.view().data(), x.data(), x_.bytes());
        for (int i = 0; i < missing; ++i) chosen[static_cast<std::size_t>(i)] = next = (next + 1) % count;
        run(host_, ExpertFfn{.x = {x.data(), NumberType::f32, {1, hidden}},
                             .ids = {chosen.data(), NumberType::i32, {1, missing}},
                             .slot_of_expert = {table.data(), NumberType::i32, {count}},
                             .slots = weights.data(),
                             .layout = experts_.host_layout,
                             .rows = {rows.data(), NumberType::f32, {1, missing, hidden}}});
        for (int i = 0; i < missing; ++i)
          copy_to_device(device_, rows.data() + i * hidden, rows_.view().rows(i, 1).data(), x_.bytes());
      });
    };
    return way_of({cost(0), cost(1), cost(several_)}, several_);
  }

 private:
  std::int64_t* clock() const { return reinterpret_cast<std::int64_t*>(clock_.data()); }
  void small_ops() {
    for (int i = 0; i < kOpsOfLayer; ++i) run(device_, Fill{.x = x_.view(), .value = 0.0F});
  }
  void ask() {
    host_ids_.resize(static_cast<std::size_t>(experts_.k));
    copy_to_host(device_, ids_.view().data(), host_ids_.data(), ids_.bytes());
  }
  // Blocks lie far apart, as those of different layers do.
  std::int64_t first_block(int layer) const {
    const std::int64_t last = experts_.blocks - 2 * several_;
    return last <= 0 ? 0 : last * (layer * 7 % kLayers) / kLayers;
  }
  const std::byte* block(int layer, int i) const {
    return experts_.store +
           (first_block(layer) + (layer % 2) * std::min<std::int64_t>(several_, experts_.blocks / 2) + i) *
               experts_.layout.bytes;
  }

  double median_us(const std::function<void()>& launch) const {
    std::vector<double> each;
    double spent_us = 0.0;
    for (int i = 0; i < kRuns && (i < kFewestRuns || spent_us < kLongEnough); ++i) {
      launch();
      wait_for(device_);
      const double us = 1e-3 * static_cast<double>(clock()[1] - clock()[0]);
      each.push_back(us / kLayers);
      spent_us += us;
    }
    const auto middle = each.begin() + std::ssize(each) / 2;
    std::ranges::nth_element(each, middle);
    return *middle;
  }
  void step(const std::function<void(int layer)>& between) {
    run(device_, StartClock{clock()});
    for (int layer = 0; layer < kLayers; ++layer) {
      small_ops();
      between(layer);
    }
    run(device_, StartClock{clock() + 1});
  }
  // Per layer; every op has run before.
  double graph_us(const std::function<void(int layer)>& between) {
    const Graph graph(device_, [&] { step(between); });
    return median_us([&] { graph.launch(); });
  }
  // What the host's part adds to a layer of the graph without it.
  double pieces_us(const std::function<void(int layer)>& part) {
    GraphPieces pieces;
    pieces.record(device_, [&] { step([&](int layer) { pieces.host([&part, layer] { part(layer); }); }); });
    return std::max(0.0, median_us([&] { pieces.launch(); }) - plain_us_);
  }

  // What lookup and fetch add to a layer. Where they miss, two token's worth of experts take turns in one
  // token's slots.
  double look_up_us(int asked, bool misses) {
    const int all = misses ? 2 * asked : asked;
    const SlotMemory memory(device_, 1, all, asked);
    std::vector<std::int32_t> experts(static_cast<std::size_t>(all));
    std::iota(experts.begin(), experts.end(), 0);
    const OwnedTensor both(device_, NumberType::i32, {all / asked, asked});
    copy_to_device(device_, experts.data(), both.view().data(), both.bytes());
    // Nothing is fetched into slots that are not there: hits are lookups alone.
    const std::int64_t fetched_bytes = misses ? experts_.layout.bytes : 0;
    const auto look_up = [&](int layer) {
      const Tensor ids = both.view().rows(layer % both.view().dim(0), 1);
      run(device_, LookUpSlots{.ids = ids,
                               .of = {.state = memory.state(),
                                      .slot_count = asked,
                                      .first_source = static_cast<int>(misses ? first_block(layer) : 0)},
                               .pending = memory.pending(),
                               .wave_table = memory.wave_table(),
                               .fetch = memory.fetch()});
      run(device_, FetchExperts{.store = experts_.store,
                                .slots = slots_.data(),
                                .block_bytes = fetched_bytes,
                                .list = memory.fetch(),
                                .counters = memory.state().counters});
    };
    for (int layer = 0; layer < 2; ++layer) look_up(layer);
    wait_for(device_);
    return std::max(0.0, graph_us(look_up) - plain_us_);
  }

  Device& device_;
  Cpu& host_;
  ExpertsOutside experts_;
  int several_;
  SharedBuffer clock_;
  OwnedTensor ids_;
  OwnedTensor table_;
  OwnedTensor x_;
  OwnedTensor rows_;
  Buffer slots_;
  std::vector<std::int32_t> host_ids_;
  std::vector<std::int32_t> host_table_ = std::vector<std::int32_t>(1024, -1);
  double plain_us_ = 0.0;
};

}  // namespace

double exposed_ms(const MissCosts::Way& way, const StepMisses& step) {
  return 1e-3 * (step.layers * way.layer_us +
                 std::max(step.missing_layers * way.beside_us,
                          step.missing_layers * way.missing_layer_us + step.misses * way.miss_us));
}

std::optional<int> cheaper_from(const MissCosts::Way& way, const MissCosts::Way& other, int most) {
  std::optional<int> from;
  for (int missing = most; missing >= 0 && way.us(missing) < other.us(missing); --missing) from = missing;
  return from;
}

MissHandling cheapest_of(const MissCosts& costs, double missing) {
  constexpr std::array kWays = {MissHandling::pull, MissHandling::dma, MissHandling::cpu};
  return *std::ranges::min_element(kWays, {}, [&](MissHandling way) { return costs.of(way).us(missing); });
}

MissCosts::Way measure_miss_cost(MissHandling way, Device& device, Cpu& host, const ExpertsOutside& experts) {
  MissBench bench(device, host, experts);
  return way == MissHandling::dma ? bench.dma() : way == MissHandling::pull ? bench.pull() : bench.cpu();
}

MissCosts measure_miss_costs(Device& device, Cpu& host, const ExpertsOutside& experts) {
  MissBench bench(device, host, experts);
  MissCosts costs{
      .expert_bytes = experts.layout.bytes, .dma = bench.dma(), .pull = bench.pull(), .cpu = bench.cpu()};
  static_assert(ExpertCache::most_promoted == 1);
  costs.cpu.beside_us = costs.dma.miss_us;
  return costs;
}

std::optional<MissCosts> miss_costs_of([[maybe_unused]] const ModelSpec& spec,
                                       [[maybe_unused]] const EngineOptions& options) {
#if MOETUNE_HAS_CUDA
  const Shard whole;
  const ExpertLayout layout = expert_layout(spec, options, whole);
  const std::int64_t blocks = std::int64_t{distinct_moe_layers(spec)} * spec.experts;
  if (blocks < 2 || blocks * layout.bytes > pinned_limit(spec)) return std::nullopt;
  Device device = Cuda(0);
  Cpu host(options.cpu_threads > 0 ? options.cpu_threads : usable_cores());
  const SharedBuffer store = lease_pinned(device, blocks * layout.bytes);
  return measure_miss_costs(device, host,
                            {.layout = layout,
                             .host_layout = ExpertLayout::of(expert_type(spec, options), spec.hidden,
                                                             whole.expert_inner(spec).count),
                             .k = routing_width(spec, options),
                             .store = store.data(),
                             .blocks = blocks});
#else
  return std::nullopt;
#endif
}

}  // namespace moetune
