#include "tuner/serving/completion.h"

#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "tuner/printable.h"
#include "tuner/serving/event_stream.h"

namespace moetune {
namespace {

using nlohmann::json;

constexpr int deepest = 32;  // of a stranger's JSON

// nlohmann's own callback counts the depth: too deep a document is dropped, not followed.
json parsed(const std::string& data) {
  return json::parse(data, [](int depth, json::parse_event_t, json&) { return depth < deepest; }, false);
}

std::int64_t count_in(const json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::int64_t>() : 0;
}

// llama-server: {"predicted_n": 128, "predicted_ms": 2560}: from the first token to the last, so one gap less
// than tokens.
std::optional<double> server_time(const json& chunk) {
  const auto timings = chunk.find("timings");
  if (timings == chunk.end() || !timings->is_object()) return std::nullopt;
  const auto milliseconds = timings->find("predicted_ms");
  const std::int64_t tokens = count_in(*timings, "predicted_n");
  if (milliseconds == timings->end() || !milliseconds->is_number() || tokens < 2) return std::nullopt;
  return milliseconds->get<double>() / static_cast<double>(tokens - 1);
}

class Reading {
 public:
  Reading(CompletionTimes& times, int wanted, const Milliseconds& now)
      : times_(times), wanted_(wanted), now_(now), started_(now()) {}

  void take(const std::string& data) {
    const double time = now_();
    if (data == "[DONE]") {
      done_ = true;
      return;
    }
    const json chunk = parsed(data);
    if (!chunk.is_object()) {
      times_.failure = "an event that is no JSON object: " + fitted(data, 100);
      return;
    }
    if (const auto error = chunk.find("error"); error != chunk.end() && !error->is_null())
      times_.failure =
          "the server says: " + fitted(error->dump(-1, ' ', false, json::error_handler_t::replace), 200);
    if (const auto usage = chunk.find("usage"); usage != chunk.end() && usage->is_object()) {
      times_.prompt_tokens = count_in(*usage, "prompt_tokens");
      tokens_ = count_in(*usage, "completion_tokens");
    }
    if (const std::optional<double> own = server_time(chunk)) times_.server_token_ms = own;
    const auto choices = chunk.find("choices");
    if (choices == chunk.end() || !choices->is_array() || choices->empty() || !choices->front().is_object())
      return;
    const auto finish = choices->front().find("finish_reason");
    const bool last = finish != choices->front().end() && !finish->is_null();
    ran_to_length_ = ran_to_length_ || (last && *finish == "length");
    const auto text = choices->front().find("text");
    if (text == choices->front().end() || !text->is_string()) return;
    if (last && text->get_ref<const std::string&>().empty()) return;  // says only that it is over
    piece(time, text->get_ref<const std::string&>());
  }

  void end() {
    times_.output_tokens = tokens_ > 0 ? tokens_ : times_.pieces;
    // A piece may hold several tokens: without a count the server's word for the end has to do.
    times_.is_cut_short = times_.output_tokens < wanted_ && (tokens_ > 0 || !ran_to_length_);
    if (times_.failure.empty() && times_.pieces == 0) times_.failure = "an answer without a token";
    if (times_.failure.empty() && !done_) times_.failure = "the stream ended before [DONE]";
  }

 private:
  void piece(double time, const std::string& text) {
    if (times_.pieces == 0)
      times_.first_token_ms = time - started_;
    else
      times_.gap_ms.push_back(time - last_);
    last_ = time;
    ++times_.pieces;
    times_.text += text;
  }

  CompletionTimes& times_;
  std::int64_t wanted_;
  const Milliseconds& now_;
  double started_;
  double last_ = 0.0;
  std::int64_t tokens_ = 0;
  bool ran_to_length_ = false;
  bool done_ = false;
};

}  // namespace

std::optional<double> CompletionTimes::token_ms() const {
  if (gap_ms.empty() || output_tokens < 2) return std::nullopt;
  double sum = 0.0;
  for (const double gap : gap_ms) sum += gap;
  return sum / static_cast<double>(output_tokens - 1);
}

CompletionTimes stream_completion(HttpClient& client, const CompletionRequest& request,
                                  const Milliseconds& now) {
  const json body = {{"model", request.model},
                     {"prompt", request.prompt},
                     {"max_tokens", request.tokens},
                     {"temperature", 0},
                     {"ignore_eos", true},
                     {"stream", true},
                     {"stream_options", {{"include_usage", true}}}};
  const std::string text = body.dump(-1, ' ', false, json::error_handler_t::replace);
  CompletionTimes times;
  Reading reading(times, request.tokens, now);
  EventStream events;
  const HttpReply reply = client.post("/v1/completions", text, [&](std::string_view piece) {
    const bool whole = events.feed(piece, [&](const std::string& data) { reading.take(data); });
    if (!whole) times.failure = fmt::format("an event longer than {} bytes", EventStream::longest_event);
    return times.failure.empty();
  });
  if (!reply.ok() && times.failure.empty()) times.failure = reply.failure;
  reading.end();
  return times;
}

}  // namespace moetune
