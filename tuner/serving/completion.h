// One streamed completion of an OpenAI-compatible server, and when each of its pieces came. Start at
// stream_completion().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tuner/serving/http_client.h"

namespace moetune {

using Milliseconds = std::function<double()>;  // a clock that never goes back; tests give one that counts

struct CompletionRequest {
  std::string model;
  std::string prompt;
  int tokens = 0;  // asked for; the server is asked not to end earlier (ignore_eos)
};

struct CompletionTimes {
  std::string failure;          // in words; empty: it came to its end
  double first_token_ms = 0.0;  // from the request to the first piece
  std::vector<double> gap_ms;   // between pieces, one less than there are
  std::int64_t pieces = 0;
  std::int64_t prompt_tokens = 0;  // as the server counts them; 0: it does not say
  std::int64_t output_tokens = 0;  // the same; the pieces where it does not say
  bool is_cut_short = false;       // fewer tokens than were asked for
  std::optional<double>
      server_token_ms;  // llama-server's own time from the first to the last token, per token
  std::string text;     // the answer

  // A piece is one token: only then do gaps say what single tokens cost.
  bool is_token_by_token() const { return output_tokens == pieces; }
  // From the first to the last piece, per token in between. Empty: fewer than two.
  std::optional<double> token_ms() const;
};

CompletionTimes stream_completion(HttpClient& client, const CompletionRequest& request,
                                  const Milliseconds& now);

}  // namespace moetune
