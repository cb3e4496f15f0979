// What is known of a configuration's output: how far it is from the reference's, and the logits of a few
// tokens by which another engine is checked to give the same. Start at score_output() and probe_objection().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tuner/targets/accuracy.h"
#include "tuner/targets/reference.h"
#include "tuner/targets/scored_text.h"

namespace moetune {

struct KnownOutput {
  AccuracyResult accuracy;
  std::vector<float> probe;  // logits of the first tokens of a window, one step each
};

// Scored positions that every accuracy measurement has: more where they cost next to nothing.
std::int64_t base_positions(const ModelSpec& spec);

// The windows that may be scored of this text, at most as many as the store of references holds.
ScoredText text_to_score(const ModelSpec& spec, const TokenSource& text);

// Groups of windows that are always scored, and those that may be while a gate is open.
int base_groups(const ScoredText& text, const ModelSpec& spec);
int extended_groups(const ScoredText& text, const ModelSpec& spec);

// The knobs on which logits depend, as one text.
std::string output_key(const EngineOptions& options);

// Does what one sequence gets depend on the others beside it? Then they have to be scored alone.
bool couples_sequences(const EngineOptions& options);

// engine: made with forcing_limits() of the reference's text. most_groups: see extended_groups().
KnownOutput score_output(Engine& engine, Reference& reference, int most_groups,
                         const std::function<void(const std::string& words)>& progress);

// Why these are not the logits that were scored; empty: they are.
std::string probe_objection(Engine& engine, const KnownOutput& output, const ScoredText& text);

}  // namespace moetune
