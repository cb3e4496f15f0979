// The golden checkpoints of tests/golden with the logits that transformers computes for them, and engines
// over them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "engine/engine.h"
#include "engine/facts/knobs.h"
#include "engine/safetensors.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/source_dir.h"

namespace moetune::testing {

struct Golden {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::vector<std::int32_t> ids;
  std::vector<float> logits;  // (ids, vocabulary)
};

template <class T>
std::vector<T> tensor_in(const SafetensorsHeader& header, const std::string& bytes, const std::string& name) {
  const SafetensorsEntry& entry = header.tensors.at(name);
  std::vector<T> values(static_cast<std::size_t>(entry.bytes) / sizeof(T));
  std::memcpy(values.data(), bytes.data() + entry.begin, values.size() * sizeof(T));
  return values;
}

inline Golden golden(const std::string& name) {
  const std::string folder = source_dir() + "/tests/golden/" + name;
  const std::string path = folder + "/expected.safetensors";
  const std::string bytes = read_bytes(path);
  const SafetensorsHeader header = parse_safetensors_header(std::as_bytes(std::span(bytes)),
                                                            static_cast<std::int64_t>(bytes.size()), path);
  const bool is_tiny_moe = name == "tiny_moe";
  return {.checkpoint = open_checkpoint(is_tiny_moe ? source_dir() + "/engine/models/tiny-moe" : folder),
          .ids = tensor_in<std::int32_t>(header, bytes, "ids"),
          .logits = tensor_in<float>(header, bytes, "logits")};
}

// Every checkpoint there is a golden for.
inline std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/tests/golden"))
    if (std::filesystem::exists(entry.path() / "expected.safetensors"))
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// {{"top_k", "2"}, ...} over the defaults.
using Settings = std::vector<std::pair<std::string, std::string>>;
inline EngineOptions options_with(const Settings& settings) {
  EngineOptions options;
  for (const auto& [knob, value] : settings) set_knob(options, knob, value);
  return options;
}

inline Engine engine_over(const Golden& golden, const Settings& settings = {}, int sequences = 1) {
  const EngineLimits limits{.sequences = sequences,
                            .context_tokens = static_cast<int>(golden.ids.size()),
                            .step_tokens = static_cast<int>(golden.ids.size()) * sequences};
  return Engine(golden.checkpoint, options_with(settings), limits);
}

// Tokens [begin, end) of a sequence as a step.
inline std::vector<StepToken> step_of(std::span<const std::int32_t> ids, std::size_t begin, std::size_t end,
                                      int sequence = 0) {
  std::vector<StepToken> step;
  for (std::size_t i = begin; i < end; ++i)
    step.push_back({.id = ids[i], .sequence = sequence, .position = static_cast<std::int32_t>(i)});
  return step;
}

// Logits of all tokens, run in steps of `chunk` tokens: all at once is one prefill, 1 is decoding.
inline std::vector<float> teacher_forced(Engine& engine, std::span<const std::int32_t> ids, std::size_t chunk,
                                         int sequence = 0) {
  std::vector<float> logits;
  for (std::size_t begin = 0; begin < ids.size(); begin += chunk) {
    const std::vector<StepToken> step = step_of(ids, begin, std::min(ids.size(), begin + chunk), sequence);
    const std::span<const float> part = engine.forward(step);
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

inline double largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

inline void expect_identical(std::span<const float> a, std::span<const float> b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0)
      << what << ": differs by up to " << largest_difference(a, b);
}

}  // namespace moetune::testing
