// A workload sent to a running server as the tuner runs it on its own engine: prompts are windows of a text,
// answers have a fixed length, sequences side by side, rounds one after another. Start at
// ServedWorkload::run(); measure_served() repeats it.
//
// As on our engine, pauses of a workload (tools, typing) are not waited for. Otherwise than there, the server
// decodes its own tokens: no API feeds it others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/facts/workload.h"
#include "tuner/measurement.h"
#include "tuner/serving/completion.h"
#include "tuner/serving/http_client.h"
#include "tuner/serving/server_url.h"

namespace moetune {

struct ServedRun {
  std::vector<double> first_token_ms;  // one per prompt
  std::vector<double>
      request_token_ms;          // mean time per token, one per prompt whose answer has two tokens or more
  std::vector<double> token_ms;  // single gaps, of answers that came token by token
  std::vector<double> server_token_ms;  // the server's own, where it says
  std::int64_t prompts = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  // Answers that the server ended before they had the tokens asked for: they are in nothing above.
  std::int64_t cut_short = 0;
  std::int64_t cut_tokens = 0;
  std::int64_t pieces = 0;
  double seconds = 0.0;
  std::string failure;  // of the first request that failed; empty: none did
};

class ServedWorkload {
 public:
  // text: to prompt with, at least a few thousand characters. Throws InputError for a text that is too short
  // for distinct prompts.
  ServedWorkload(ServerUrl url, std::string token, std::string model, Workload workload, std::string text,
                 Milliseconds now, const HttpLimits& limits = {});

  // Finds how many characters of the text make a token, by the server's count. Empty: done; else why it could
  // not be found (4 is then assumed) or why nothing works.
  std::string calibrate();
  const Workload& workload() const { return workload_; }
  double characters_per_token() const { return characters_per_token_; }

  ServedRun run(std::uint64_t number);

 private:
  std::string window(std::uint64_t number, std::int64_t tokens) const;
  ServedRun sequence(std::uint64_t number) const;
  ServedRun sent(HttpClient& client, const std::string& prompt, int tokens, std::string* answer) const;

  ServerUrl url_;
  std::string token_;
  std::string model_;
  Workload workload_;
  std::string text_;
  Milliseconds now_;
  HttpLimits limits_;
  double characters_per_token_ = 4.0;
};

struct ServedResult {
  Metrics metrics;                       // tpot_ms, ttft_ms, tokens_per_s
  std::optional<double> server_tpot_ms;  // median of the server's own times
  std::vector<std::string> remarks;      // what is otherwise than on our engine
  std::int64_t answers = 0;
  std::int64_t cut_short = 0;  // of these: left out of every number
  std::string failure;         // empty: measured
};

// seconds: of measuring, warm-up not counted. Given up once at least six runs, and more than those that
// count, had only answers that were cut short: `metrics` may be empty then.
ServedResult measure_served(ServedWorkload& workload, double seconds,
                            const std::function<void(const std::string& words)>& progress);

}  // namespace moetune
