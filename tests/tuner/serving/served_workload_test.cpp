#include "tuner/serving/served_workload.h"

#include <atomic>
#include <mutex>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/fake_server.h"
#include "tests/support/message_of.h"
#include "tuner/serving/completion.h"

namespace moetune {
namespace {

using nlohmann::json;

// Every look at this clock is a millisecond: times are counts of events.
Milliseconds counting_clock() {
  auto ticks = std::make_shared<std::atomic<int>>(0);
  return [ticks] { return static_cast<double>((*ticks)++); };
}

std::string event(const json& data) { return "data: " + data.dump() + "\n\n"; }
json chunk(const std::string& text) {
  return {{"choices", {{{"index", 0}, {"text", text}, {"finish_reason", nullptr}}}}};
}

// Answers like vLLM: a chunk per token, then the count. Four characters are a token.
FakeServer::Answer answer_to(const std::string& body) {
  const json request = json::parse(body);
  FakeServer::Answer answer{.type = "text/event-stream", .pieces = {}};
  const int tokens = request.at("max_tokens");
  for (int i = 0; i < tokens; ++i) answer.pieces.push_back(event(chunk("tok ")));
  answer.pieces.push_back(event({{"choices", {{{"index", 0}, {"text", ""}, {"finish_reason", "length"}}}}}));
  answer.pieces.push_back(event({{"choices", json::array()},
                                 {"usage",
                                  {{"prompt_tokens", request.at("prompt").get<std::string>().size() / 3},
                                   {"completion_tokens", tokens}}}}));
  answer.pieces.emplace_back("data: [DONE]\n\n");
  return answer;
}

std::string some_text() {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "word" + std::to_string(i) + (i % 7 == 0 ? " \xc3\xa9 " : " ");
  return text;
}

CompletionTimes completion(const std::vector<std::string>& pieces, int status = 200) {
  FakeServer server;
  server.on_post("/v1/completions", [&](auto&, auto&) {
    return FakeServer::Answer{.status = status, .type = "text/event-stream", .pieces = pieces};
  });
  HttpClient client(server_url("--url", server.start()));
  return stream_completion(client, {"m", "prompt", 3}, counting_clock());
}

TEST(StreamCompletion, TimesAreTakenWhenPiecesCome) {
  const CompletionTimes times =
      completion({event(chunk("a")), event(chunk("b")), event(chunk("c")),
                  event({{"choices", json::array()},
                         {"usage", {{"prompt_tokens", 5}, {"completion_tokens", 3}}},
                         {"timings", {{"predicted_n", 3}, {"predicted_ms", 50.0}}}}),
                  "data: [DONE]\n\n"});
  EXPECT_EQ(times.failure, "");
  EXPECT_EQ(times.first_token_ms, 1.0);
  EXPECT_EQ(times.gap_ms, (std::vector<double>{1.0, 1.0}));
  EXPECT_EQ(times.token_ms(), 1.0);
  EXPECT_EQ(times.prompt_tokens, 5);
  EXPECT_TRUE(times.is_token_by_token());
  EXPECT_EQ(times.server_token_ms, 25.0);
  EXPECT_EQ(times.text, "abc");
}

TEST(StreamCompletion, SeveralTokensInAPiece) {
  const CompletionTimes times = completion(
      {event(chunk("ab")), event(chunk("cd")),
       event({{"choices", json::array()}, {"usage", {{"completion_tokens", 5}}}}), "data: [DONE]\n\n"});
  EXPECT_FALSE(times.is_token_by_token());
  EXPECT_EQ(times.token_ms(), 0.25);
}

TEST(StreamCompletion, WhatGoesWrongIsSaid) {
  EXPECT_EQ(completion({"data: [DONE]\n\n"}).failure, "an answer without a token");
  EXPECT_EQ(completion({event(chunk("a"))}).failure, "the stream ended before [DONE]");
  EXPECT_TRUE(has_text(completion({event(chunk("a")), "data: {broken\n\n"}).failure,
                       "an event that is no JSON object: {broken"));
  EXPECT_TRUE(
      has_text(completion({event({{"error", {{"message", "out of memory"}}}})}).failure, "out of memory"));
  EXPECT_TRUE(has_text(completion({"{\"error\": \"no such model\"}"}, 404).failure,
                       "status 404: {\"error\": \"no such model\"}"));
  EXPECT_TRUE(has_text(
      completion({event({{"usage", 7}, {"choices", {1, 2}}, {"timings", "x"}}), "data: [DONE]\n\n"}).failure,
      "without a token"));
}

TEST(ServedWorkload, PromptsAreAsLongAsTheServerCountsThem) {
  FakeServer server;
  std::vector<json> requests;
  server.on_post("/v1/completions", [&](const std::string& body, auto&) {
    requests.push_back(json::parse(body));
    return answer_to(body);
  });
  Workload workload = workload_named("chat");
  workload.prompt_tokens = 100;
  workload.output_tokens = 4;
  ServedWorkload served(server_url("--url", server.start()), "", "the-model", workload, some_text(),
                        counting_clock());
  EXPECT_EQ(served.calibrate(), "");
  EXPECT_NEAR(served.characters_per_token(), 0.97 * 3.0, 0.05);
  requests.clear();
  const ServedRun run = served.run(1);
  EXPECT_EQ(run.failure, "");
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0]["model"], "the-model");
  EXPECT_EQ(requests[0]["max_tokens"], 4);
  EXPECT_EQ(requests[0]["stream_options"], json::parse(R"({"include_usage": true})"));
  EXPECT_NEAR(static_cast<double>(run.prompt_tokens), 97.0, 2.0);
  EXPECT_EQ(run.token_ms, (std::vector<double>{1.0, 1.0, 1.0}));
  EXPECT_EQ(run.request_token_ms, (std::vector<double>{1.0}));
  EXPECT_NE(served.run(2).prompts, 0);
  EXPECT_NE(requests[0]["prompt"], requests[1]["prompt"]);
}

TEST(ServedWorkload, SequencesAtOnceAndRoundsThatGrow) {
  FakeServer server;
  std::mutex mutex;
  std::vector<std::string> prompts;
  server.on_post("/v1/completions", [&](const std::string& body, auto&) {
    const std::lock_guard lock(mutex);
    prompts.push_back(json::parse(body).at("prompt"));
    return answer_to(body);
  });
  Workload workload = workload_named("agent");
  workload.prompt_tokens = 50;
  workload.round_prompt_tokens = 10;
  workload.output_tokens = 2;
  workload.rounds = 3;
  workload.sequences = 4;
  ServedWorkload served(server_url("--url", server.start()), "", "m", workload, some_text(),
                        counting_clock());
  const ServedRun run = served.run(1);
  EXPECT_EQ(run.failure, "");
  EXPECT_EQ(run.prompts, 12);
  EXPECT_EQ(run.output_tokens, 24);
  EXPECT_EQ(std::set<std::string>(prompts.begin(), prompts.end()).size(), 12U);
  // A round begins with all that was said before, the server's answer included.
  int continued = 0;
  for (const std::string& prompt : prompts)
    for (const std::string& other : prompts) continued += other.starts_with(prompt + "tok tok ") ? 1 : 0;
  EXPECT_EQ(continued, 4 * 3);  // first in second and third, second in third
}

TEST(ServedWorkload, MeasuredUntilTheIntervalIsNarrow) {
  FakeServer server;
  server.on_post("/v1/completions", [](const std::string& body, auto&) { return answer_to(body); });
  Workload workload = workload_named("chat");
  workload.prompt_tokens = 60;
  workload.output_tokens = 80;
  ServedWorkload served(server_url("--url", server.start()), "", "m", workload, some_text(),
                        counting_clock());
  const ServedResult result = measure_served(served, 1000.0, [](const std::string&) {});
  EXPECT_EQ(result.failure, "");
  const Measurement& tpot = result.metrics.at("tpot_ms");
  EXPECT_EQ(tpot.value, 1.0);
  EXPECT_EQ(tpot.low, 1.0);
  EXPECT_EQ(tpot.high, 1.0);
  EXPECT_EQ(tpot.stopped, "interval narrow");
  EXPECT_EQ(tpot.n, 6 * 79);
  EXPECT_EQ(tpot.p99, 1.0);
  EXPECT_EQ(result.metrics.at("ttft_ms").value, 1.0);
  EXPECT_TRUE(result.metrics.contains("tokens_per_s"));
}

// Like answer_to(), but every `each`th answer has half of the tokens that were asked for.
FakeServer::Answer sometimes_half(const std::string& body, int number, int each) {
  json request = json::parse(body);
  const int tokens = request.at("max_tokens");
  if (tokens > 1 && number % each == 0) request["max_tokens"] = tokens / 2;
  return answer_to(request.dump());
}

ServedResult measured_with_half_answers(int each) {
  FakeServer server;
  std::atomic<int> number = 0;
  server.on_post("/v1/completions",
                 [&](const std::string& body, auto&) { return sometimes_half(body, ++number, each); });
  Workload workload = workload_named("chat");
  workload.prompt_tokens = 60;
  workload.output_tokens = 80;
  ServedWorkload served(server_url("--url", server.start()), "", "m", workload, some_text(),
                        counting_clock());
  return measure_served(served, 1000.0, [](const std::string&) {});
}

TEST(ServedWorkload, AnswersThatAreCutShortDoNotCount) {
  const ServedResult result = measured_with_half_answers(3);
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.cut_short, 0);
  EXPECT_EQ(result.metrics.at("ttft_ms").n, result.answers - result.cut_short);
  EXPECT_EQ(result.metrics.at("tpot_ms").n, 79 * (result.answers - result.cut_short))
      << "every answer that counts has all of its tokens";
  ASSERT_GE(result.remarks.size(), 2U);
  EXPECT_TRUE(has_text(result.remarks[1], "answers ended before they had 80 tokens (40.0 on average)"));
}

TEST(ServedWorkload, AServerThatCutsEveryAnswerIsGivenUp) {
  const ServedResult result = measured_with_half_answers(1);
  EXPECT_EQ(result.failure, "");
  EXPECT_TRUE(result.metrics.empty()) << "nothing to judge by";
  EXPECT_EQ(result.cut_short, result.answers);
}

TEST(StreamCompletion, AnEndBeforeTheTokensAskedForIsSeen) {
  const auto ended = [](const char* reason, int counted) {
    json last = chunk("c");
    last["choices"][0]["finish_reason"] = reason;
    std::vector<std::string> pieces = {event(chunk("a")), event(last)};
    if (counted > 0)
      pieces.push_back(event({{"choices", json::array()}, {"usage", {{"completion_tokens", counted}}}}));
    pieces.emplace_back("data: [DONE]\n\n");
    return completion(pieces).is_cut_short;  // 3 tokens were asked for
  };
  EXPECT_TRUE(ended("stop", 2));
  EXPECT_TRUE(ended("length", 2)) << "its context was full";
  EXPECT_FALSE(ended("length", 3));
  EXPECT_FALSE(ended("stop", 3));
  EXPECT_TRUE(ended("stop", 0));
  EXPECT_FALSE(ended("length", 0)) << "several tokens in a piece, and nobody counts them";
}

TEST(ServedWorkload, AFailedRequestEndsTheMeasurementAndSaysWhichItWas) {
  const auto failure_after = [](int good, Workload workload) {
    FakeServer server;
    int requests = 0;
    server.on_post("/v1/completions", [&](const std::string& body, auto&) {
      return requests++ < good ? answer_to(body)
                               : FakeServer::Answer{.status = 503, .pieces = {"overloaded"}};
    });
    ServedWorkload served(server_url("--url", server.start()), "", "m", std::move(workload), some_text(),
                          counting_clock());
    return measure_served(served, 1000.0, [](const std::string&) {}).failure;
  };
  const Workload chat = workload_named("chat");
  const auto begins = [](const std::string& failure, const std::string& words) {
    EXPECT_TRUE(failure.starts_with(words + "POST http://")) << failure;
    EXPECT_TRUE(has_text(failure, "status 503: overloaded")) << failure;
  };
  begins(failure_after(1, chat), "request 2 of 4 that ask how many characters make a token: ");
  begins(failure_after(4, chat), "the run that warms up: ");
  begins(failure_after(6, chat), "run 2: ");
  Workload rounds = chat;
  rounds.rounds = 3;
  begins(failure_after(5, rounds), "the run that warms up: round 2 of 3: ");
}

TEST(ServedWorkload, ATextTooShortToPromptWithIsRefused) {
  EXPECT_THROW(ServedWorkload(server_url("--url", "http://x"), "", "m", workload_named("chat"), "short",
                              counting_clock()),
               InputError);
}

}  // namespace
}  // namespace moetune
