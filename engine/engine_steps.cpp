// How a step reaches all ranks. Start at Engine::Impl::forward(), or at start_decode() for steps that feed
// themselves.
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/decoder.h"
#include "engine/engine_impl.h"
#include "engine/facts/error.h"
#include "kernels/sample.h"
#include "kernels/tool_ranges.h"

namespace moetune {

void Engine::Impl::require_usable() const {
  if (!is_usable)
    throw std::runtime_error("the engine was left without memory or files by a failed change of options");
}

std::span<const float> Engine::Impl::forward(std::span<const StepToken> step, Phase phase) {
  require_usable();
  contexts.accept(step);
  const ToolRange range(phase == Phase::prefill ? "moetune: prefill" : "moetune: decode");
  const StepScope recorded(ranks.front()->recorder, phase, std::ssize(step));
  for (std::vector<std::int32_t>* list : {&ids, &sequences, &positions, &wanted}) list->clear();
  for (const StepToken& token : step) {
    if (token.wants_logits) wanted.push_back(static_cast<std::int32_t>(ids.size()));
    ids.push_back(token.id);
    sequences.push_back(token.sequence);
    positions.push_back(token.position);
  }
  const std::size_t count = wanted.size() * static_cast<std::size_t>(spec.vocabulary);
  if (logits.size() < count) logits.resize(count);
  const StepInputs inputs{ids, sequences, positions, wanted};
  try {
    on_all_ranks([&](Rank& rank) { decode_step(rank, inputs, logits.data()); });
  } catch (...) {  // some layers have written to the KV cache, some have not
    contexts.forget();
    throw;
  }
  tokens_run += static_cast<std::int64_t>(step.size());
  return std::span(logits).first(count);
}

// Checks every step beforehand: on the device nobody looks.
void Engine::Impl::accept_all(const DecodeRequest& request) {
  if (request.steps < 1 || request.steps > limits.context_tokens)
    throw InputError("steps", std::to_string(request.steps), "1 .. " + std::to_string(limits.context_tokens));
  const std::size_t count = request.first.size();
  if (!request.forced.empty() && request.forced.size() != count * static_cast<std::size_t>(request.steps))
    throw InputError("forced tokens", std::to_string(request.forced.size()), "one per step and sequence");
  const ContextLengths before = contexts;
  std::vector<StepToken> step(request.first.begin(), request.first.end());
  try {
    for (int done = 0; done < request.steps; ++done) {
      contexts.accept(step);
      for (std::size_t i = 0; i < count; ++i) {
        ++step[i].position;
        if (!request.forced.empty()) step[i].id = request.forced[static_cast<std::size_t>(done) * count + i];
      }
    }
  } catch (...) {
    contexts = before;
    throw;
  }
}

void Engine::Impl::start_decode(const DecodeRequest& request) {
  require_usable();
  already_decoded.reset();
  Rank& rank = *ranks.front();
  if (!rank.decode_loop) {
    already_decoded = decode_by_steps(request);
    return;
  }
  accept_all(request);
  try {
    rank.decode_loop->start(request, launch_for(rank));
    is_decoding = true;
    tokens_run += request.steps * static_cast<std::int64_t>(request.first.size());
  } catch (...) {
    contexts.forget();
    throw;
  }
}

// A graph holds no question to the host: where it has a part in every layer, a step is several.
DecodeLoop::Launch Engine::Impl::launch_for(const Rank& rank) const {
  using Launch = DecodeLoop::Launch;
  if (!options.cuda_graph) return Launch::ops;
  if (shares_host_memory(rank.device)) return Launch::graph;
  if (rank.observer || rank.routing_source) return Launch::ops;
  return rank.host_must_know() ? Launch::pieces : Launch::graph;
}

Decoded Engine::Impl::finish_decode() {
  if (already_decoded) return std::exchange(already_decoded, std::nullopt).value();
  if (!std::exchange(is_decoding, false)) throw std::logic_error("finish_decode(): no decoding was started");
  try {
    return ranks.front()->decode_loop->finish();
  } catch (...) {
    contexts.forget();
    throw;
  }
}

// Where several ranks share the vocabulary, the host puts the logits together and chooses.
Decoded Engine::Impl::decode_by_steps(const DecodeRequest& request) {
  using Clock = std::chrono::steady_clock;
  const ContextLengths before = contexts;
  accept_all(request);
  contexts = before;
  std::vector<StepToken> step(request.first.begin(), request.first.end());
  const auto rows = static_cast<std::int64_t>(step.size());
  std::vector<std::int32_t> keys(step.size());
  std::vector<std::int32_t> chosen(step.size());
  Decoded decoded;
  for (int done = 0; done < request.steps; ++done) {
    const Clock::time_point start = Clock::now();
    const std::span<const float> rows_of_logits = forward(step, Phase::decode);
    for (std::size_t i = 0; i < step.size(); ++i) keys[i] = ++step[i].position;
    // A tensor is a view that may be written through; Sample only reads its logits.
    run(ranks.front()->host, Sample{.logits = Tensor(const_cast<float*>(rows_of_logits.data()),
                                                     NumberType::f32, {rows, spec.vocabulary}),
                                    .keys = Tensor(keys.data(), NumberType::i32, {rows}),
                                    .ids = Tensor(chosen.data(), NumberType::i32, {rows}),
                                    .temperature = request.sampling.temperature,
                                    .seed = request.sampling.seed});
    decoded.ids.insert(decoded.ids.end(), chosen.begin(), chosen.end());
    for (std::size_t i = 0; i < step.size(); ++i)
      step[i].id = request.forced.empty() ? chosen[i]
                                          : request.forced[static_cast<std::size_t>(done) * step.size() + i];
    decoded.step_seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return decoded;
}

}  // namespace moetune
