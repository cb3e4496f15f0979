// look_up and place_ahead alone, in a program of their own: compute-sanitizer comes to an end on it, where in
// kernels_tests it prepares every kernel of the library first. Small random steps of every policy; whether
// the decisions are right is what cuda_slot_lookup_test.cpp asks.
//
//   compute-sanitizer --tool racecheck cuda_slot_race          no hazards
//   compute-sanitizer --tool racecheck cuda_slot_race planted  a kernel with a race in it: the tool must find
//   it
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <tuple>
#include <vector>

// Both files call what they hand to their kernel Work.
#include "kernels/slot_lookup.cu"
#define Work AheadWork
#include "kernels/place_ahead.cu"
#undef Work

namespace moetune {
namespace {

template <class T>
T* filled(int count, int byte = 0) {
  T* data = nullptr;
  CUDA_TRY(cudaMalloc(&data, static_cast<std::size_t>(count) * sizeof(T)));
  CUDA_TRY(cudaMemset(data, byte, static_cast<std::size_t>(count) * sizeof(T)));
  return data;
}

struct Case {
  int experts, k, slots;
  EvictionRule rule;
  int tokens;
};
constexpr int kLayers = 2;
constexpr int kSteps = 4;

// (tokens, k), here and there no expert; those of a token differ.
std::vector<std::int32_t> invented_ids(const Case& of, std::mt19937& random) {
  std::vector<std::int32_t> ids;
  for (int token = 0; token < of.tokens; ++token) {
    const auto first = static_cast<int>(random() % static_cast<unsigned>(of.experts));
    for (int i = 0; i < of.k; ++i) ids.push_back(random() % 7 == 0 ? -1 : (first + i) % of.experts);
  }
  return ids;
}

void run_steps(const Case& of, std::mt19937& random) {
  const int all = kLayers * of.experts;
  cuda::SlotTables tables{.rule = of.rule,
                          .experts = of.experts,
                          .layer = 0,
                          .first_slot = 0,
                          .slot_count = of.slots,
                          .first_source = 0,
                          .slot_of = filled<std::int32_t>(all, 0xFF),
                          .expert_in = filled<std::int32_t>(of.slots, 0xFF),
                          .times_asked = filled<std::int32_t>(all),
                          .is_hot = filled<std::int32_t>(all),
                          .last_asked = filled<std::int64_t>(all),
                          .step_began = nullptr,
                          .held_in_wave = filled<std::int64_t>(of.slots),
                          .clock = filled<std::int64_t>(2),
                          .ahead = filled<std::int32_t>(2 + of.experts),
                          .counters = filled<SlotCounters>(1),
                          .fetch_count = filled<std::int32_t>(1),
                          .fetch_sources = filled<std::int32_t>(of.experts),
                          .fetch_slots = filled<std::int32_t>(of.experts)};
  auto* began = filled<std::int64_t>(kLayers);
  auto* hot = filled<std::int32_t>(all);
  auto* hot_count = filled<std::int32_t>(kLayers);
  auto* pending = filled<std::int32_t>(1 + of.experts);
  auto* wave_table = filled<std::int32_t>(of.experts);
  auto* ids = filled<std::int32_t>(of.tokens * of.k);
  const int waves = (std::min(of.tokens * of.k, of.experts) + of.slots - 1) / of.slots + 1;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<std::int32_t> chosen = invented_ids(of, random);
    CUDA_TRY(cudaMemcpy(ids, chosen.data(), chosen.size() * sizeof(std::int32_t), cudaMemcpyHostToDevice));
    tables.layer = step % kLayers;
    tables.step_began = began + tables.layer;
    for (int wave = 0; wave < waves; ++wave)
      look_up<<<1, kSlotThreads>>>({.tables = tables,
                                    .ids = ids,
                                    .ids_stride = of.k,
                                    .tokens = of.tokens,
                                    .k = of.k,
                                    .asks = wave == 0,
                                    .most_hot = of.slots / kLayers / 2,
                                    .hot = hot + tables.layer * of.experts,
                                    .hot_count = hot_count + tables.layer,
                                    .pending = pending,
                                    .wave_table = wave_table});
    cuda::SlotTables next = tables;
    next.layer = (step + 1) % kLayers;
    next.step_began = began + next.layer;
    place_ahead<<<1, kSlotThreads>>>({.tables = next,
                                      .ids = step % 3 == 0 ? nullptr : ids,
                                      .ids_stride = of.k,
                                      .tokens = of.tokens,
                                      .k = of.k,
                                      .most = of.slots / kLayers,
                                      .is_between_steps = step + 1 == kSteps});
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaDeviceSynchronize());
  }
}

// Each thread reads what its neighbour writes, and nothing stands between.
__global__ void planted(int* to) {
  __shared__ int values[kSlotThreads];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  to[threadIdx.x] = values[(threadIdx.x + 32) % kSlotThreads];
}

void run_all(bool with_race) {
  if (with_race) {
    planted<<<1, kSlotThreads>>>(filled<int>(kSlotThreads));
    CUDA_TRY(cudaDeviceSynchronize());
    return;
  }
  std::mt19937 random(5);
  int cases = 0;
  for (const EvictionRule rule :
       {EvictionRule{}, EvictionRule{.by_count = true}, EvictionRule{.keeps_hot = true}})
    for (const int tokens : {1, 2, 40})
      for (const auto& [experts, k, slots] : {std::tuple(11, 2, 7), std::tuple(256, 8, 100)}) {
        run_steps({.experts = experts, .k = k, .slots = slots, .rule = rule, .tokens = tokens}, random);
        ++cases;
      }
  std::printf("%d cases of %d steps\n", cases, kSteps);
}

}  // namespace
}  // namespace moetune

int main(int argc, char** argv) try {
  moetune::run_all(argc > 1 && std::string_view(argv[1]) == "planted");
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
