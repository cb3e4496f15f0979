// A routing trace as a file: safetensors, so that other tools read it too. Tensors, all (tokens, ...):
//   expert_ids      I32 (tokens, layers that route, k)   -1: no expert
//   expert_weights  F32 the same shape
//   foreseen_ids    I32 the same shape
//   token_ids, sequences, positions, steps, decodes, kinds   I32 (tokens)
// and __metadata__: format, model, model_hash, experts, expert_bytes, kind_names (separated by commas).
// `logits --routing-from` takes expert_ids of one, where it holds as many tokens. Start at read_trace(); it
// trusts nothing the file says.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "engine/trace/routing_trace.h"

namespace moetune {

std::string trace_bytes(const RoutingTrace& trace);

// where: the file's name, for messages. Throws InputError naming tensor, place, value and what is accepted.
RoutingTrace read_trace(std::span<const std::byte> file, const std::string& where);
RoutingTrace read_trace_file(const std::string& path);

}  // namespace moetune
