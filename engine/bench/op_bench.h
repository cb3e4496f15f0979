// Times single ops and whole layers of a model on one device, as the engine runs them: distinct layers
// chained in one graph, so that no weight is in a cache when it is read. Start at OpBench::time().
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/bench/layer_ops.h"
#include "engine/bench/op_cost.h"
#include "engine/checkpoint.h"
#include "engine/rank.h"
#include "kernels/dense_choice.h"

namespace moetune {

inline constexpr int kWantedLayers = 16;
inline constexpr double kNoTimeLimit = std::numeric_limits<double>::infinity();

struct OpBenchSetup {
  std::vector<std::string> ops;  // that will be asked for: what no op of them needs is not loaded
  std::int64_t tokens = 1;       // most of a step
  std::int64_t context = 512;
  bool is_prompt = false;  // the tokens follow each other in one sequence; else each is the last of its own
  std::int64_t device_bytes = 0;  // to stay within; 0: no limit
  std::int64_t cold_bytes =
      0;  // more than the device's caches keep: read between two uses of the same weights
  std::int64_t read_bytes = std::int64_t{256} << 20;  // of op `read`, a layer
  std::uint64_t seed = 1;
  int wanted_layers = kWantedLayers;   // distinct ones to chain, 1 or more
  double most_seconds = kNoTimeLimit;  // for all before the first op; see fill_seconds()
};

struct OpTiming {
  std::string op;
  std::int64_t tokens = 0;
  int layers = 0;                 // distinct ones in the graph
  bool has_fewer_layers = false;  // than there are: no time was left for the others
  bool is_flushed =
      false;  // they read so little that other memory was read before each run, to empty the caches
  double experts_touched = 0.0;      // of a layer, mean over those in the graph
  double first_seconds = 0.0;        // of the first layer's first run, which is not among those that count
  std::vector<double> microseconds;  // of one layer, per run; empty: the first run went beyond the limit
  OpCost cost;                       // of one layer, mean over those in the graph
  DenseCounts dense;                 // of one layer: products of many tokens by the own kernels and by cuBLAS
};

// Weights take as long as they take; what they leave is for filling the KV cache, a third of all at least.
double fill_seconds(double most_seconds, double spent_seconds);

class OpBench {
 public:
  // Generated models get as many layers as are wanted and fit; of a checkpoint those there are. Throws
  // InputError where an op is not the model's or the KV cache takes too long to fill, std::bad_alloc without
  // memory, std::runtime_error when the device refuses.
  OpBench(const std::shared_ptr<const Checkpoint>& checkpoint, const EngineOptions& options,
          const OpBenchSetup& setup);
  ~OpBench();

  // Inputs are set anew and outputs poisoned before each of the runs; throws std::runtime_error naming the op
  // when an output is not finite after the last, or a row was left out. most_seconds: no run begins after
  // them, and where layers are slow fewer of them are chained.
  OpTiming time(const std::string& op, std::int64_t tokens, int runs, double most_seconds = kNoTimeLimit);

  // What the device's tensor cores reach, operations per second; 0 on a CPU.
  double tensor_flops();

  const ModelSpec& spec() const { return *spec_; }

 private:
  void make_rank(const EngineOptions& options);
  void make_read_block();
  void place_tokens(std::int64_t tokens);
  void fill_kv_cache(double most_seconds);
  void set_residual(std::int64_t tokens);
  void run_op(const std::string& op, const BenchLayer& layer, std::int64_t tokens);
  void run_before(const std::string& op, const BenchLayer& layer, std::int64_t tokens);
  void flush_caches();
  void poison(const std::string& op, std::int64_t tokens);
  void check_outputs(const std::string& op, std::int64_t tokens);
  OpCost cost_of(const std::string& op, const BenchLayer& layer, const OpWork& work) const;
  double experts_chosen(std::int64_t tokens);
  std::vector<BenchLayer> layers_for(const std::string& op) const;
  void warm_up(OpTiming& timing, std::vector<BenchLayer>& layers, double spent_seconds, double most_seconds);

  OpBenchSetup setup_;
  EngineOptions options_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  const ModelSpec* spec_;
  std::unique_ptr<Rank> rank_;
  std::vector<float> start_;  // the residual stream's rows before a run
  Buffer read_block_;
  Buffer flush_block_;
  OwnedTensor read_sum_;
};

}  // namespace moetune
