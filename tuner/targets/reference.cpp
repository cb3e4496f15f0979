#include "tuner/targets/reference.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "engine/content_hash.h"
#include "engine/option_rules.h"
#include "moetune/build_info.h"
#include "tuner/targets/divergence.h"
#include "tuner/targets/occasional_words.h"
#include "tuner/targets/teacher_forcing.h"

namespace moetune {
namespace {

// Which row of a group's routing belongs to a transformer block.
std::vector<int> moe_rows(const ModelSpec& spec) {
  std::vector<int> rows;
  int next = 0;
  for (const bool routes : spec.moe_layers) rows.push_back(routes ? next++ : -1);
  return rows;
}

ReferenceShape shape_of(const ModelSpec& spec, const ScoredText& text) {
  return {.positions = text.positions_per_group(),
          .vocabulary = spec.vocabulary,
          .moe_layers = spec.moe_layer_count(),
          .k = spec.experts_per_token};
}

}  // namespace

Reference::Reference(std::shared_ptr<const Checkpoint> checkpoint, ScoredText text,
                     ReferenceSettings settings)
    : checkpoint_(std::move(checkpoint)),
      text_(std::move(text)),
      settings_(std::move(settings)),
      groups_(static_cast<std::size_t>(text_.groups())) {}

EngineOptions Reference::options(DeviceKind device, int threads) {
  EngineOptions options = default_options(device);
  options.kv_type = NumberType::f32;
  options.cpu_threads = threads;
  return options;
}

Engine Reference::make_engine(int side_by_side) const {
  return {checkpoint_, options(settings_.device, settings_.threads), forcing_limits(text_, side_by_side)};
}

std::string Reference::key_of(int number) const {
  return fmt::format("{:.16}-{:.16}-{}", spec_of(*checkpoint_).content_hash, text_.hash(number),
                     settings_.build);
}

const ReferenceGroup& Reference::group(int number) {
  std::optional<ReferenceGroup>& group = groups_.at(static_cast<std::size_t>(number));
  if (group) return *group;
  const ReferenceStore store(settings_.store_folder);
  group = store.read(key_of(number), shape_of(spec_of(*checkpoint_), text_));
  if (group) return *group;
  group = compute(number);
  const std::string objection = store.write(key_of(number), *group);
  if (!objection.empty() && settings_.on_message && !std::exchange(said_that_nothing_is_kept_, true))
    settings_.on_message("reference logits are not kept for the next run: " + objection);
  return *group;
}

ReferenceGroup Reference::compute(int number) const {
  const ModelSpec& spec = spec_of(*checkpoint_);
  const std::vector<int> rows = moe_rows(spec);
  ReferenceGroup group = ReferenceGroup::blank(shape_of(spec, text_));
  const auto [positions, vocabulary, moe_layers, k] = group.shape;
  OccasionalWords say(settings_.on_progress);
  std::int64_t done = number * positions;
  Engine engine = make_engine(ScoredText::windows_per_group);
  force_group(engine, text_, number,
              {.logits =
                   [&](const ScoredPosition& at, std::span<const float> logits) {
                     say([&] { return fmt::format("reference logits, position {}", done + 1); });
                     ++done;
                     std::ranges::copy(logits, group.logits.begin() + at.index(text_) * vocabulary);
                   },
               .routing =
                   [&](const ScoredPosition& at, int layer, std::span<const std::int32_t> ids,
                       std::span<const float> weights) {
                     const std::int64_t first =
                         (at.index(text_) * moe_layers + rows.at(static_cast<std::size_t>(layer))) * k;
                     std::ranges::copy(ids, group.expert_ids.begin() + first);
                     std::ranges::copy(weights, group.expert_weights.begin() + first);
                   }});
  return group;
}

double Reference::floor_kl() {
  if (floor_kl_) return *floor_kl_;
  const ReferenceGroup& stored = group(0);
  const std::int64_t vocabulary = stored.shape.vocabulary;
  if (settings_.on_progress) settings_.on_progress("run-to-run floor");
  Engine engine = make_engine(1);
  double sum = 0.0;
  force_window(engine, text_, 0, 0, [&](const ScoredPosition& at, std::span<const float> logits) {
    const auto first = static_cast<std::size_t>(at.index(text_) * vocabulary);
    sum += kl_divergence(stored.logits.subspan(first, static_cast<std::size_t>(vocabulary)), logits);
  });
  floor_kl_ = sum / static_cast<double>(text_.scored());
  return *floor_kl_;
}

std::string reference_build_key() {
  const std::string commit(build_info::commit);
  if (commit.find("dirty") == std::string::npos && commit != "unknown") return commit;
  // Uncommitted changes have no name: the program itself stands for them.
  std::ifstream program("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(program), std::istreambuf_iterator<char>()};
  ContentHash hash;
  hash.add_text(bytes);
  return "exe" + hash.hex().substr(0, 12);
}

}  // namespace moetune
