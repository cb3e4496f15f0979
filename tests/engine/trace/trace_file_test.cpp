// A trace survives its file; what is wrong with a file is named.
#include "engine/trace/trace_file.h"

#include <functional>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune::testing {
namespace {

RoutingTrace small() {
  RoutingTrace trace;
  trace.model = "made-up";
  trace.model_hash = "abc";
  trace.layers = 2;
  trace.experts = 4;
  trace.k = 2;
  trace.expert_bytes = 1000;
  trace.token_ids = {5, 6, 7};
  trace.sequences = {0, 0, 0};
  trace.positions = {0, 1, 2};
  trace.steps = {0, 0, 1};
  trace.decodes = {0, 0, 1};
  trace.kinds = {0, 1, 1};
  trace.kind_names = {"english", "python"};
  trace.expert_ids = {0, 1, 2, 3, 1, 0, 3, 2, 2, -1, 0, 3};
  trace.expert_weights = {0.75F, 0.25F, 0.5F, 0.5F, 1.0F, 0.0F, 0.5F, 0.5F, 1.0F, 0.0F, 0.5F, 0.5F};
  trace.foreseen = {-1, -1, 2, 3, -1, -1, 3, 1, -1, -1, 0, 3};
  return trace;
}

RoutingTrace read_back(const RoutingTrace& trace) {
  const std::string bytes = trace_bytes(trace);
  return read_trace(std::as_bytes(std::span(bytes)), "t");
}

TEST(TraceFile, GivesBackWhatWasWritten) {
  const RoutingTrace trace = small();
  const RoutingTrace read = read_back(trace);
  EXPECT_EQ(read.model, trace.model);
  EXPECT_EQ(read.model_hash, trace.model_hash);
  EXPECT_EQ(read.layers, 2);
  EXPECT_EQ(read.experts, 4);
  EXPECT_EQ(read.k, 2);
  EXPECT_EQ(read.expert_bytes, 1000);
  EXPECT_EQ(read.kind_names, trace.kind_names);
  for (const auto member :
       {&RoutingTrace::token_ids, &RoutingTrace::sequences, &RoutingTrace::positions, &RoutingTrace::steps,
        &RoutingTrace::decodes, &RoutingTrace::kinds, &RoutingTrace::expert_ids, &RoutingTrace::foreseen})
    EXPECT_EQ(read.*member, trace.*member);
  EXPECT_EQ(read.expert_weights, trace.expert_weights);
}

TEST(TraceFile, NamesWhatIsWrong) {
  const auto message = [](const std::function<void(RoutingTrace&)>& spoil) {
    RoutingTrace trace = small();
    spoil(trace);
    return message_of<InputError>([&] { read_back(trace); });
  };
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.expert_ids[6] = 4; }),
            "t: expert_ids, token 1, layer 1: expert 4 (accepted: -1 (none) .. 3)");
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.expert_ids[1] = 0; }),
            "t: expert_ids, token 0, layer 0: expert 0 twice (accepted: different experts)");
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.steps[2] = 2; }),
            "t: steps, token 2: 2 (accepted: 0 or 1)");
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.steps[0] = 1; }), "t: steps, token 0: 1 (accepted: 0)");
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.decodes[1] = 1; }),
            "t: decodes, token 1: 1 (accepted: one value for all tokens of a step)");
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.decodes[2] = 2; }),
            "t: decodes, token 2: 2 (accepted: 0 .. 1)");
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.kinds[0] = 2; }),
            "t: kinds, token 0: 2 (accepted: 0 .. 1)");
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.positions[0] = -1; }),
            "t: positions, token 0: -1 (accepted: 0 .. 2147483647)");
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.expert_weights[3] = -1.0F; }),
            "t: expert_weights, element 3: -1 (accepted: finite, at least 0)");
  EXPECT_EQ(message([](RoutingTrace& trace) {
              trace.expert_ids[3] = -1;
              trace.expert_weights[3] = 0.5F;
            }),
            "t: expert_weights, element 3: 0.5 of no expert (expert_ids has -1) (accepted: 0 there)");
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.experts = 0; }),
            "t: __metadata__: experts: '0' (accepted: 1 .. 65536)");
  EXPECT_EQ(message([](RoutingTrace& trace) { trace.experts = 1; }),
            "t: expert_ids: 2 places a token (accepted: at most 1, the experts of a layer)");
}

TEST(TraceFile, RefusesOtherFiles) {
  const std::string other(8, '\0');
  EXPECT_NE(message_of<InputError>([&] { read_trace(std::as_bytes(std::span(other)), "t"); }).find("t"),
            std::string::npos);
  std::string bytes = trace_bytes(small());
  bytes.resize(bytes.size() - 4);
  EXPECT_FALSE(message_of<InputError>([&] { read_trace(std::as_bytes(std::span(bytes)), "t"); }).empty());
}

}  // namespace
}  // namespace moetune::testing
