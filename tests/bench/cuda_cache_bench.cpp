// What an expert that is not on the GPU costs: the link's rate under a copy and under a kernel that reads
// pinned memory, the lookup where nothing is missing, and a miss by each way of handling it.
//
//   cuda_cache_bench [link] [lookup] [miss] [shape=qwen3,...] [type=bf16,int4] [threads=1,4,16] [runs=15]
//
// Medians. link: GB/s by size. lookup: microseconds per layer with every expert resident. miss: by shape and
// number type, tab-separated, what a layer costs by every way (engine/miss_costs.h), and from how many
// missing experts of its top-k on one way costs less than another; threads: of the processor, for cpu.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "engine/miss_costs.h"
#include "kernels/weight_matrix.h"
#include "tests/bench/cuda_bench.h"
#include "tests/bench/cuda_fetch.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

struct Shape {
  const char* name;
  std::int64_t hidden, inner, experts, k;
  NumberType shipped;
};
constexpr Shape kShapes[] = {{"qwen3", 2048, 768, 128, 8, NumberType::bf16},
                             {"v2lite", 2048, 1408, 64, 6, NumberType::bf16},
                             {"gptoss", 2880, 2880, 128, 4, NumberType::mxfp4},
                             {"mixtral", 4096, 14336, 8, 2, NumberType::bf16},
                             {"v3", 7168, 2048, 256, 8, NumberType::fp8}};

class Bench : public bench::FetchBench {
 public:
  using FetchBench::FetchBench;

  void link() {
    std::printf("%-10s %10s %14s %14s\n", "bytes", "blocks", "dma GB/s", "pull GB/s");
    for (const std::int64_t kib : {64, 256, 1024, 2400, 4096, 9216, 16384, 43008})
      for (const std::int64_t count : {1, 8}) {
        const FetchTime time = fetch_time(kib * 1024, count);
        const double total = static_cast<double>(kib * 1024 * count);
        std::printf("%-10ld %10ld %14.1f %14.1f\n", kib * 1024, count, 1e-3 * total / time.dma_us,
                    1e-3 * total / time.pull_us);
      }
  }

  void lookup() {
    std::printf("%-10s %14s\n", "shape", "us per layer");
    for (const Shape& shape : kShapes) std::printf("%-10s %14.2f\n", shape.name, lookup_us(shape.k));
  }

  void miss(const Shape& shape, NumberType type, const std::vector<int>& threads) {
    if (store_.bytes() == 0) {
      store_ = SharedBuffer::unwritten(device(), kStoreBytes);
      std::printf("shape\ttype\tMB\tway\tlayer_us\tmissing_layer_us\tmiss_us\tone_us\tcheaper\n");
    }
    const ExpertLayout layout = ExpertLayout::of(type, shape.hidden, shape.inner, Packing::tiles);
    const ExpertsOutside experts{.layout = layout,
                                 .host_layout = ExpertLayout::of(type, shape.hidden, shape.inner),
                                 .k = static_cast<int>(shape.k),
                                 .store = store_.data(),
                                 .blocks = kStoreBytes / layout.bytes};
    Cpu host(1);
    const MissCosts::Way dma = measure_miss_cost(MissHandling::dma, device(), host, experts);
    const MissCosts::Way pull = measure_miss_cost(MissHandling::pull, device(), host, experts);
    const auto print = [&](const std::string& way, const MissCosts::Way& cost, const std::string& cheaper) {
      std::printf("%s\t%s\t%.2f\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t%s\n", shape.name,
                  std::string(name_of(type)).c_str(), 1e-6 * static_cast<double>(layout.bytes), way.c_str(),
                  cost.layer_us, cost.missing_layer_us, cost.miss_us, cost.us(1), cheaper.c_str());
    };
    const auto against = [&](const MissCosts::Way& cost, const MissCosts::Way& other, const char* name) {
      const std::optional<int> from = cheaper_from(cost, other, experts.k);
      return from ? "than " + std::string(name) + " from " + std::to_string(*from) + " of " +
                        std::to_string(experts.k)
                  : "never than " + std::string(name);
    };
    print("dma", dma, against(dma, pull, "pull"));
    print("pull", pull, "");
    for (const int count : threads) {
      Cpu processor(count);
      MissCosts::Way cpu = measure_miss_cost(MissHandling::cpu, device(), processor, experts);
      cpu.beside_us = dma.miss_us;
      print("cpu:" + std::to_string(count), cpu,
            against(cpu, dma, "dma") + ", " + against(cpu, pull, "pull"));
    }
    std::fflush(stdout);
  }

 private:
  static constexpr std::int64_t kStoreBytes = std::int64_t{4}
                                              << 30;  // experts of a layer lie far from the next one's
  SharedBuffer store_;
};

void bench_all(const std::vector<std::string>& arguments) {
  std::vector<std::string> parts;
  std::vector<std::string> shapes;
  std::vector<std::string> types;
  std::vector<int> threads{1, 4, 8, usable_cores()};
  int runs = 15;
  for (const std::string& argument : arguments) {
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const std::string name = argument.substr(0, equals);
    const std::vector<std::string> values =
        bench::split(argument.substr(std::min(equals + 1, argument.size())));
    if (name == "shape")
      shapes = values;
    else if (name == "type")
      types = values;
    else if (name == "runs")
      runs = std::stoi(values.front());
    else if (name == "threads") {
      threads.clear();
      for (const std::string& count : values) threads.push_back(std::stoi(count));
    } else if (name == "link" || name == "lookup" || name == "miss")
      parts.push_back(name);
    else
      throw std::invalid_argument(argument +
                                  ": accepted are link, lookup, miss, shape=, type=, threads=, runs=");
  }
  const auto has = [](const std::vector<std::string>& in, const std::string& what) {
    return in.empty() || std::ranges::find(in, what) != in.end();
  };
  Bench bench(runs);
  if (has(parts, "link")) bench.link();
  if (has(parts, "lookup")) bench.lookup();
  if (!has(parts, "miss")) return;
  for (const Shape& shape : kShapes) {
    if (!has(shapes, shape.name)) continue;
    for (const NumberType type : {shape.shipped, NumberType::int4})
      if (has(types, std::string(name_of(type)))) bench.miss(shape, type, threads);
  }
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) {
  return moetune::bench::run_main([&] { moetune::bench_all({argv + 1, argv + argc}); });
}

#else
int main() { return moetune::bench::without_cuda(); }
#endif
