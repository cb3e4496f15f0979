#include "engine/device_guesses.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "engine/scratch.h"
#include "kernels/guess_experts.h"
#include "kernels/run.h"

namespace moetune {
namespace {

std::int64_t rows_of(const ModelSpec& spec, Prefetch kind) {
  return kind == Prefetch::markov ? spec.experts : spec.vocabulary;
}
std::int64_t columns_of(const ModelSpec& spec, Prefetch kind) {
  return kind == Prefetch::markov ? spec.experts : spec.experts_per_token;
}
std::int64_t tokens_before(Prefetch kind, std::int64_t step_tokens) {
  return kind == Prefetch::markov ? step_tokens : 0;
}

}  // namespace

DeviceGuesses::DeviceGuesses(Device& device, const ModelSpec& spec, Prefetch kind, std::int64_t step_tokens,
                             std::int64_t sequences)
    : device_(&device),
      kind_(kind),
      layers_(spec.moe_layer_count()),
      rows_(rows_of(spec, kind)),
      columns_(columns_of(spec, kind)),
      counts_(device, NumberType::i32, {layers_ * rows_, columns_}),
      before_(device, NumberType::i32, {tokens_before(kind, step_tokens), spec.experts_per_token}),
      guesses_(device, NumberType::i32, {sequences, spec.experts_per_token}) {
  assert(kind == Prefetch::markov || kind == Prefetch::table);
  forget();
}

std::int64_t DeviceGuesses::bytes_of(const ModelSpec& spec, Prefetch kind, std::int64_t step_tokens,
                                     std::int64_t sequences) {
  const std::int64_t numbers = spec.moe_layer_count() * rows_of(spec, kind) * columns_of(spec, kind) +
                               (tokens_before(kind, step_tokens) + sequences) * spec.experts_per_token;
  return numbers * element_bytes(NumberType::i32);
}

// Counts begin at 0, places of a table at -1.
void DeviceGuesses::forget() {
  constexpr std::int64_t kPiece = std::int64_t{1} << 20;
  const std::vector<std::int32_t> empty(static_cast<std::size_t>(std::min(kPiece, counts_.view().elements())),
                                        kind_ == Prefetch::markov ? 0 : -1);
  for (std::int64_t done = 0; done < counts_.view().elements(); done += std::ssize(empty))
    copy_to_device(
        *device_, empty.data(), counts_.view().i32() + done,
        std::min(std::ssize(empty), counts_.view().elements() - done) * element_bytes(NumberType::i32));
  wait_for(*device_);  // what is copied ends with this call
}

Tensor DeviceGuesses::counts(int moe_layer) const { return counts_.view().rows(moe_layer * rows_, rows_); }

Tensor DeviceGuesses::guesses(std::int64_t tokens, std::int64_t k) const {
  return first_rows(guesses_, {tokens, k});
}

Tensor DeviceGuesses::after_choice(int moe_layer, const Tensor& ids, const Tensor& token_ids,
                                   bool guesses_next) {
  const bool guesses_any = guesses_next && moe_layer + 1 < layers_;
  const Tensor next = guesses_any ? counts(moe_layer + 1) : Tensor();
  const Tensor answer = guesses_any ? guesses(ids.dim(0), ids.dim(1)) : Tensor();
  if (kind_ == Prefetch::markov)
    run(*device_, FollowExperts{.ids = ids,
                                .before = first_rows(before_, {ids.dim(0), ids.dim(1)}),
                                .learns = moe_layer > 0,
                                .counts = counts(moe_layer),
                                .next_counts = next,
                                .guesses = answer});
  else
    run(*device_, RecallExperts{.token_ids = token_ids,
                                .ids = ids,
                                .table = counts(moe_layer),
                                .next_table = next,
                                .guesses = answer});
  return answer;
}

Tensor DeviceGuesses::before_step(const Tensor& token_ids, std::int64_t k) {
  if (kind_ != Prefetch::table) return {};
  const Tensor answer = guesses(token_ids.dim(0), k);
  run(*device_, RecallExperts{.token_ids = token_ids, .next_table = counts(0), .guesses = answer});
  return answer;
}

}  // namespace moetune
