#include "tuner/serving/served_workload.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/statistics.h"
#include "tuner/stop_rule.h"

namespace moetune {
namespace {

constexpr double narrow_interval = 0.03;  // of the median, as the tuner's own
constexpr std::int64_t fewest_runs = 6;   // below there is no interval
constexpr std::size_t shortest_text = 2000;
constexpr int calibrations = 4;
// Prompts are that much shorter than the workload says: passages differ, and a server may hold no token more
// than that.
constexpr double room = 0.03;

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void add(ServedRun& all, const ServedRun& one) {
  append(all.first_token_ms, one.first_token_ms);
  append(all.request_token_ms, one.request_token_ms);
  append(all.token_ms, one.token_ms);
  append(all.server_token_ms, one.server_token_ms);
  all.prompts += one.prompts;
  all.prompt_tokens += one.prompt_tokens;
  all.output_tokens += one.output_tokens;
  all.cut_short += one.cut_short;
  all.cut_tokens += one.cut_tokens;
  all.pieces += one.pieces;
  if (all.failure.empty()) all.failure = one.failure;
}

// Which of several it was, before what went wrong; "" for a single one.
std::string place(const char* what, std::size_t number, std::size_t of) {
  return of > 1 ? fmt::format("{} {} of {}: ", what, number + 1, of) : "";
}

bool continues_a_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// When each sequence starts, in seconds: at once, or one by one at random times.
std::vector<double> arrivals(const Workload& workload, std::uint64_t run) {
  std::vector<double> times(static_cast<std::size_t>(workload.sequences), 0.0);
  if (!workload.poisson_arrivals || workload.arrivals_per_s <= 0.0) return times;
  std::mt19937_64 random(workload.seed * 1000003 + run);
  std::exponential_distribution<double> gap(workload.arrivals_per_s);
  double time = 0.0;
  for (double& start : times) start = std::exchange(time, time + gap(random));
  return times;
}

}  // namespace

ServedWorkload::ServedWorkload(ServerUrl url, std::string token, std::string model, Workload workload,
                               std::string text, Milliseconds now, const HttpLimits& limits)
    : url_(std::move(url)),
      token_(std::move(token)),
      model_(std::move(model)),
      workload_(std::move(workload)),
      text_(std::move(text)),
      now_(std::move(now)),
      limits_(limits) {
  if (text_.size() < shortest_text)
    throw InputError("--calibration", fmt::format("a text of {} bytes", text_.size()),
                     fmt::format("at least {}: prompts are windows of it", shortest_text));
}

// Windows follow one another, wrap round the end and begin at places that no two numbers share until all were
// used.
std::string ServedWorkload::window(std::uint64_t number, std::int64_t tokens) const {
  const std::size_t length = static_cast<std::size_t>(
      std::max(1.0, std::round(static_cast<double>(tokens) * characters_per_token_)));
  constexpr std::uint64_t stride = 1009;  // a prime: neighbours do not begin alike
  std::size_t at = static_cast<std::size_t>(number * stride % text_.size());
  while (continues_a_character(text_[at])) at = (at + 1) % text_.size();
  std::string result;
  for (; result.size() < length || continues_a_character(text_[at]); at = (at + 1) % text_.size())
    result += text_[at];
  return result;
}

ServedRun ServedWorkload::sent(HttpClient& client, const std::string& prompt, int tokens,
                               std::string* answer) const {
  const CompletionTimes times = stream_completion(client, {model_, prompt, tokens}, now_);
  ServedRun run;
  run.failure = times.failure;
  if (!times.failure.empty()) return run;
  if (answer != nullptr) *answer = times.text;
  if (times.is_cut_short) {
    run.cut_short = 1;
    run.cut_tokens = times.output_tokens;
    return run;
  }
  run.prompts = 1;
  run.first_token_ms = {times.first_token_ms};
  if (const std::optional<double> token = times.token_ms()) run.request_token_ms = {*token};
  if (times.is_token_by_token()) run.token_ms = times.gap_ms;
  if (times.server_token_ms) run.server_token_ms = {*times.server_token_ms};
  run.prompt_tokens = times.prompt_tokens;
  run.output_tokens = times.output_tokens;
  run.pieces = times.pieces;
  return run;
}

ServedRun ServedWorkload::sequence(std::uint64_t number) const {
  HttpClient client(url_, token_, limits_);
  ServedRun all;
  std::string prompt;
  for (int round = 0; round < workload_.rounds && all.failure.empty(); ++round) {
    const std::uint64_t part =
        number * static_cast<std::uint64_t>(workload_.rounds) + static_cast<std::uint64_t>(round);
    const std::string added =
        window(part, round == 0 ? workload_.prompt_tokens : workload_.round_prompt_tokens);
    // Typed in pieces: the server may keep what it has read. Only the last piece's first token is waited for
    // by a user.
    for (int piece = 1; piece < workload_.typed_pieces && all.failure.empty(); ++piece) {
      std::size_t end =
          added.size() * static_cast<std::size_t>(piece) / static_cast<std::size_t>(workload_.typed_pieces);
      while (end < added.size() && continues_a_character(added[end])) ++end;
      all.failure = sent(client, prompt + added.substr(0, end), 1, nullptr).failure;
    }
    if (all.failure.empty()) {
      prompt += added;
      std::string answer;
      add(all, sent(client, prompt, workload_.output_tokens, &answer));
      prompt += answer;
    }
    if (!all.failure.empty())
      all.failure =
          place("round", static_cast<std::size_t>(round), static_cast<std::size_t>(workload_.rounds)) +
          all.failure;
  }
  return all;
}

std::string ServedWorkload::calibrate() {
  HttpClient client(url_, token_, limits_);
  double fewest = characters_per_token_;
  for (int attempt = 0; attempt < calibrations; ++attempt) {
    // First a short prompt: where every character is a token, a whole one would not fit into the server's
    // context.
    const std::int64_t tokens =
        attempt == 0 ? std::max(1, workload_.prompt_tokens / 8) : workload_.prompt_tokens;
    const std::string prompt = window(static_cast<std::uint64_t>(attempt), tokens);
    const ServedRun answer = sent(client, prompt, 1, nullptr);
    if (!answer.failure.empty())
      return fmt::format("request {} of {} that ask how many characters make a token: {}", attempt + 1,
                         calibrations, answer.failure);
    if (answer.prompt_tokens == 0) return "";  // it does not count; said in the remarks of every measurement
    const double found = static_cast<double>(prompt.size()) / static_cast<double>(answer.prompt_tokens);
    fewest = attempt <= 1 ? found : std::min(fewest, found);
    characters_per_token_ = fewest;
  }
  characters_per_token_ = fewest * (1.0 - room);
  return "";
}

ServedRun ServedWorkload::run(std::uint64_t number) {
  const std::vector<double> starts = arrivals(workload_, number);
  std::vector<ServedRun> parts(starts.size());
  const double began = now_();
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < starts.size(); ++i)
      threads.emplace_back([&, i] {
        if (starts[i] > 0.0)
          std::this_thread::sleep_until(start +
                                        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                            std::chrono::duration<double>(starts[i])));
        try {
          parts[i] = sequence(number * starts.size() + i);
        } catch (const std::exception& error) {
          parts[i].failure = error.what();  // must not leave the thread
        }
        if (!parts[i].failure.empty())
          parts[i].failure = place("sequence", i, starts.size()) + parts[i].failure;
      });
  }
  ServedRun all;
  all.seconds = (now_() - began) / 1000.0;
  for (const ServedRun& part : parts) add(all, part);
  return all;
}

namespace {

void remark(ServedResult& result, const ServedRun& all, int wanted_tokens, double characters_per_token) {
  const auto per_prompt = [&](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(1, all.prompts));
  };
  if (all.prompt_tokens > 0)
    result.remarks.push_back(fmt::format(
        "prompts of {:.0f} tokens on average, by the server's count ({:.2f} characters per token)",
        per_prompt(all.prompt_tokens), characters_per_token));
  else if (all.prompts > 0)
    result.remarks.push_back(fmt::format(
        "the server counts no tokens: prompts are as long as {:.1f} characters per token make them",
        characters_per_token));
  if (all.cut_short > 0)
    result.remarks.push_back(
        fmt::format("{} of {} answers ended before they had {} tokens ({:.1f} on average) although the "
                    "server was asked to "
                    "go on (ignore_eos): they are in no number here",
                    all.cut_short, all.cut_short + all.prompts, wanted_tokens,
                    static_cast<double>(all.cut_tokens) / static_cast<double>(all.cut_short)));
  if (all.pieces != all.output_tokens)
    result.remarks.push_back(fmt::format("{} tokens came in {} pieces: there is no p99 of single tokens",
                                         all.output_tokens, all.pieces));
}

}  // namespace

ServedResult measure_served(ServedWorkload& workload, double seconds,
                            const std::function<void(const std::string& words)>& progress) {
  ServedResult result;
  progress("asking the server how many characters make a token");
  result.failure = workload.calibrate();
  if (!result.failure.empty()) return result;
  std::uint64_t number = 1;
  progress("warming up");
  ServedRun all;
  all.failure = workload.run(number++).failure;
  if (!all.failure.empty()) all.failure = "the run that warms up: " + all.failure;
  std::vector<double> run_token_ms;
  std::vector<double> run_first_ms;
  std::vector<double> tokens_per_s;
  StopRule stop({.relative_width = narrow_interval, .at_least = fewest_runs, .seconds = seconds});
  std::int64_t left_out = 0;
  const auto is_hopeless = [&] { return left_out >= fewest_runs && left_out > stop.count(); };
  while (all.failure.empty() && !stop.done() && !is_hopeless()) {
    progress(fmt::format("timing, run {}", stop.count() + left_out + 1));
    ServedRun run = workload.run(number++);
    if (!run.failure.empty())
      run.failure = fmt::format("run {}: {}", stop.count() + left_out + 1, run.failure);
    add(all, run);
    if (!run.failure.empty()) break;
    if (run.first_token_ms.empty()) {
      ++left_out;
      stop.leave_out(run.seconds);
      continue;
    }
    run_first_ms.push_back(mean(run.first_token_ms));
    if (!run.request_token_ms.empty()) run_token_ms.push_back(mean(run.request_token_ms));
    // Where some answers were cut short the server had less to do.
    if (run.cut_short == 0)
      tokens_per_s.push_back(static_cast<double>(run.output_tokens) / std::max(run.seconds, 1e-9));
    stop.add(run.request_token_ms.empty() ? run_first_ms.back() : run_token_ms.back(), run.seconds);
  }
  result.failure = all.failure;
  if (!result.failure.empty()) return result;
  const std::string stopped = stop.done() ? stop.reason() : "most answers were cut short";
  const auto put = [&](const char* metric, const std::vector<double>& runs,
                       const std::vector<double>& singles) {
    if (runs.empty()) return;
    Measurement measurement = time_measurement(runs, stopped);
    measurement.p99 = p99(singles);
    if (!singles.empty()) measurement.n = std::ssize(singles);
    result.metrics[metric] = measurement;
  };
  put("tpot_ms", run_token_ms, all.pieces == all.output_tokens ? all.token_ms : std::vector<double>{});
  put("ttft_ms", run_first_ms, all.first_token_ms);
  put("tokens_per_s", tokens_per_s, {});
  if (!all.server_token_ms.empty()) result.server_tpot_ms = median(all.server_token_ms);
  result.answers = all.prompts + all.cut_short;
  result.cut_short = all.cut_short;
  remark(result, all, workload.workload().output_tokens, workload.characters_per_token());
  return result;
}

}  // namespace moetune
