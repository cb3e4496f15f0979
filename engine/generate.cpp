#include "engine/generate.h"

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/stopwatch.h"
#include "kernels/sample.h"

namespace moetune {
namespace {

// Picks one token per row. The draw is keyed by the position the token will take.
class Sampler {
 public:
  Sampler(const Sampling& sampling, std::int64_t vocabulary) : sampling_(sampling), vocabulary_(vocabulary) {}

  void pick(std::span<const float> logits, std::vector<std::int32_t>& positions,
            std::vector<std::int32_t>& ids) {
    const auto rows = static_cast<std::int64_t>(positions.size());
    ids.resize(positions.size());
    // A tensor is a view that may be written through; Sample only reads its logits.
    run(cpu_,
        Sample{.logits = Tensor(const_cast<float*>(logits.data()), NumberType::f32, {rows, vocabulary_}),
               .keys = Tensor(positions.data(), NumberType::i32, {rows}),
               .ids = Tensor(ids.data(), NumberType::i32, {rows}),
               .temperature = sampling_.temperature,
               .seed = sampling_.seed});
  }

 private:
  Cpu cpu_{1};
  Sampling sampling_;
  std::int64_t vocabulary_;
};

void require_room(const Engine& engine, std::span<const std::vector<std::int32_t>> prompts, int new_tokens) {
  const EngineLimits& limits = engine.limits();
  if (prompts.empty() || prompts.size() > static_cast<std::size_t>(limits.sequences))
    throw InputError("prompts", std::to_string(prompts.size()),
                     fmt::format("1 .. {} sequences", limits.sequences));
  if (new_tokens < 1) throw InputError("new tokens", std::to_string(new_tokens), "at least 1");
  for (const auto& prompt : prompts)
    if (prompt.empty() || prompt.size() + static_cast<std::size_t>(new_tokens) - 1 >
                              static_cast<std::size_t>(limits.context_tokens))
      throw InputError("prompt", fmt::format("{} tokens and {} new ones", prompt.size(), new_tokens),
                       fmt::format("1 or more, together at most {}", limits.context_tokens + 1));
}

}  // namespace

Generated generate(Engine& engine, std::span<const std::vector<std::int32_t>> prompts, int new_tokens,
                   const Sampling& sampling) {
  require_room(engine, prompts, new_tokens);
  Sampler sampler(sampling, engine.spec().vocabulary);
  Generated generated;
  generated.ids.resize(prompts.size());
  std::vector<StepToken> step;
  std::vector<std::int32_t> positions(1);
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Stopwatch watch;
    const std::span<const float> logits = engine.prefill(static_cast<int>(i), prompts[i]);
    positions[0] = static_cast<std::int32_t>(prompts[i].size());
    sampler.pick(logits, positions, ids);
    generated.prefill_seconds.push_back(watch.seconds());
    generated.ids[i].push_back(ids[0]);
    step.push_back({.id = ids[0], .sequence = static_cast<std::int32_t>(i), .position = positions[0]});
  }
  if (new_tokens == 1) return generated;
  const Decoded decoded =
      engine.decode({.first = step, .steps = new_tokens - 1, .forced = {}, .sampling = sampling});
  generated.step_seconds = decoded.step_seconds;
  for (std::size_t i = 0; i < decoded.ids.size(); ++i)
    generated.ids[i % step.size()].push_back(decoded.ids[i]);
  return generated;
}

}  // namespace moetune
