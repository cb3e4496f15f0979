#include "tuner/commands/op_notes.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/dense_choice.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/study.h"
#include "tuner/counted.h"

namespace moetune {
namespace {

// The op with the fewest distinct layers, of which one that lacked time says more; nullptr: none was timed.
// Of heads there is one.
const OpTiming* fewest_layers(const std::vector<OpTiming>& timings) {
  const OpTiming* fewest = nullptr;
  for (const OpTiming& timing : timings) {
    if (timing.microseconds.empty() || timing.op == "head") continue;
    if (fewest == nullptr || timing.layers < fewest->layers ||
        (timing.layers == fewest->layers && timing.has_fewer_layers))
      fewest = &timing;
  }
  return fewest;
}

std::string why_few_layers(const OpMeasurement& found, const OpTiming& timing) {
  if (timing.has_fewer_layers || found.has_fewer_layers) return "no more within --budget";
  return found.model.is_synthetic ? "no more fit into memory" : "the model has no more";
}

}  // namespace

std::vector<std::string> op_notes(const OpMeasurement& found) {
  std::vector<std::string> notes;
  notes.push_back(fmt::format(
      "Times are of one layer, MB what it has to read: weights, experts touched, KV cache. Measured here: "
      "{:.0f} GB/s read{}.",
      found.rates.read_gb_per_s,
      found.rates.tensor_flops > 0.0 ? fmt::format(", {:.0f} TFLOP/s bf16", 1e-12 * found.rates.tensor_flops)
                                     : ""));
  const OpTiming* fewest = fewest_layers(found.timings);
  if (fewest != nullptr && fewest->layers < found.wanted_layers)
    notes.push_back(fmt::format("Only {}, not {}: {}.", counted(fewest->layers, "distinct layer"),
                                found.wanted_layers, why_few_layers(found, *fewest)));
  bool any_flushed = false;
  bool any_in_cache = false;
  std::vector<std::string> by_cublas;
  for (const OpTiming& timing : found.timings) {
    if (timing.microseconds.empty()) continue;
    any_flushed = any_flushed || timing.is_flushed;
    any_in_cache = any_in_cache || is_in_cache(shares_of(timing, found.rates));
    if (timing.dense.cublas > 0)
      by_cublas.push_back(fmt::format("{} at {} tokens", timing.op, timing.tokens));
  }
  if (any_flushed)
    notes.emplace_back("* so little that the caches could keep it: other memory is read before each run.");
  if (any_in_cache)
    notes.emplace_back(
        "in cache: faster than memory can be read, so that a share of its rate would say nothing.");
  if (!by_cublas.empty())
    notes.push_back(fmt::format("Dense products by {}, weights copied out of their tiles: {}.", cublas_name(),
                                fmt::join(by_cublas, ", ")));
  if (const std::string note = no_cublas_message(found.engine.device); !note.empty())
    notes.push_back(note + ".");
  if (const std::string note = model_note(found.model); !note.empty()) notes.push_back(note + ".");
  return notes;
}

}  // namespace moetune
