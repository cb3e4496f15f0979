// What an expert that is not on the GPU costs: the link's rate under a copy and under a kernel that reads
// pinned memory, the lookup where nothing is missing, and one miss by each way of handling it.
//
//   cuda_cache_bench [link] [lookup] [miss] [shape=qwen3,...] [type=bf16,int4] [threads=1,4,16] [runs=15]
//
// Medians. link: GB/s by size. lookup: microseconds per layer with every expert resident. miss: microseconds
// of one missing expert of one token, and from how many missing experts on, of k, each way is the quickest.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/expert_ffn.h"
#include "kernels/fetch_experts.h"
#include "kernels/run.h"
#include "kernels/slot_memory.h"
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
    const std::int64_t bytes = ExpertLayout::of(type, shape.hidden, shape.inner, Packing::tiles).bytes;
    const Missing one = missing(bytes, 1);
    std::map<std::string, double> us;
    us["pull"] = on_device([&] { pull(one); });
    std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.k));
    const OwnedTensor on_gpu(device(), NumberType::i32, {1, shape.k});
    const double question = question_us(shape.k);
    us["dma"] = on_host([&] {
      copy_to_host(device(), on_gpu.view().data(), ids.data(), shape.k * 4);
      copy(one);
      wait_for(device());
    });
    for (const int count : threads)
      us[std::to_string(count) + " threads"] = question + cpu_us(shape, type, count);
    std::printf("%-8s %-6s %8.2f MB  a question to the host %6.1f us; one miss:", shape.name,
                std::string(name_of(type)).c_str(), 1e-6 * static_cast<double>(bytes), question);
    for (const auto& [name, value] : us) std::printf("  %s %.1f", name.c_str(), value);
    const auto quickest = std::ranges::min_element(us, {}, [](const auto& way) { return way.second; });
    std::printf("  quickest: %s\n", quickest->first.c_str());
    // dma asks the host in every layer, hit or miss; pull only pays for the lookup.
    const double copy_us = us["dma"] - question;
    const double pull_us = us["pull"];
    if (pull_us > copy_us)
      std::printf("%-8s pull costs more than dma from %.1f missing experts a layer on\n", shape.name,
                  question / (pull_us - copy_us));
    else
      std::printf("%-8s pull costs less than dma at every number of missing experts\n", shape.name);
  }

 private:
  // One expert for one token on the host, out of more experts than any cache holds.
  double cpu_us(const Shape& shape, NumberType type, int threads) {
    constexpr std::int64_t kFarApart = std::int64_t{1} << 30;
    Device host = Cpu(threads);
    const ExpertLayout layout = ExpertLayout::of(type, shape.hidden, shape.inner);
    const auto experts = static_cast<std::int32_t>(std::max<std::int64_t>(2, kFarApart / layout.bytes));
    bench::Memory memory(host, 0.01F);
    const std::byte* slots = memory.bytes(experts * layout.bytes);
    const Tensor x = memory.tensor(NumberType::f32, {1, shape.hidden});
    const Tensor rows = memory.tensor(NumberType::f32, {1, 1, shape.hidden});
    std::vector<float> values(static_cast<std::size_t>(shape.hidden), 0.01F);
    memory.put(x, values.data());
    std::vector<std::int32_t> table(static_cast<std::size_t>(experts));
    std::iota(table.begin(), table.end(), 0);
    std::int32_t expert = 0;
    return on_host([&] {
      expert = (expert + 1) % experts;
      run(host, ExpertFfn{.x = x,
                          .ids = {&expert, NumberType::i32, {1, 1}},
                          .slot_of_expert = {table.data(), NumberType::i32, {experts}},
                          .slots = slots,
                          .layout = layout,
                          .rows = rows});
    });
  }
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
  return moetune::bench::run_main([&] {
    moetune::bench_all({argv + 1, argv + argc});
  });
}

#else
int main() { return moetune::bench::without_cuda(); }
#endif
