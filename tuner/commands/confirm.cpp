// moetune confirm: a running server measured with a workload; confirms or refutes a profile.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/data_files.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/profile_argument.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/run_paths.h"
#include "tuner/commands/table.h"
#include "tuner/durable_file.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/launch_profile.h"
#include "tuner/metric_facts.h"
#include "tuner/printable.h"
#include "tuner/serving/confirmation.h"
#include "tuner/serving/http_client.h"
#include "tuner/serving/load_watch.h"
#include "tuner/serving/served_workload.h"
#include "tuner/utc_time.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_text = std::size_t{16} << 20;

struct ConfirmOptions {
  Console console;
  std::string profile;
  std::string url;
  std::string workload;
  std::string calibration;
  std::string served_name;
  std::string key_variable;
  double seconds = 60.0;
  double tolerance = 0.10;
  double timeout_seconds = HttpLimits().silence_seconds;
};

std::string api_key(const std::string& variable) {
  if (variable.empty()) return "";
  const char* const key = std::getenv(variable.c_str());
  if (key == nullptr || *key == '\0')
    throw InputError("--api-key-env", "'" + printable(variable) + "' is not set",
                     "the name of an environment variable that holds the key");
  return key;
}

// What the server calls its models: the first of them, or the one that was asked for.
std::string model_name(HttpClient& client, const std::string& wanted) {
  const HttpReply reply = client.get("/v1/models");
  if (!reply.ok()) {
    if (!wanted.empty() && reply.status != 0) return wanted;
    throw InputError("--url", reply.failure,
                     "an OpenAI-compatible server that answers; --served-name where it has no /v1/models, a "
                     "longer --timeout where it needs one");
  }
  std::vector<std::string> names;
  const nlohmann::json document = parse_json(reply.body, "/v1/models");
  const JsonFields fields(document, "/v1/models");
  for (const nlohmann::json& model : fields.array("data"))
    names.push_back(JsonFields(model, "/v1/models: data").text("id"));
  if (names.empty()) throw InputError("/v1/models", "no model", "a server that has loaded one");
  if (wanted.empty()) return names.front();
  for (const std::string& name : names)
    if (name == wanted) return name;
  throw InputError("--served-name", "'" + printable(wanted) + "'",
                   printable(fmt::format("{}", fmt::join(names, ", "))));
}

std::string text_in(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(most_text, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad() || stream.gcount() == 0)
    throw InputError("--calibration", "'" + printable(file) + "' cannot be read or is empty", "a text file");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

std::string text_of(const std::string& file) {
  if (!file.empty()) return text_in(file);
  if (models_folder().empty())
    throw InputError("--calibration", "not given, and no text comes with this build",
                     "a text to prompt with");
  return text_in(models_folder() + "/tiny-moe/calibration.txt");
}

Workload workload_of(const ConfirmOptions& options, const std::optional<LaunchProfile>& profile) {
  if (options.workload.empty()) return profile ? profile->workload : workload_named("chat");
  const bool is_file = options.workload.find('/') != std::string::npos || options.workload.ends_with(".json");
  if (is_file) return workload_from_json(read_json_file(options.workload), options.workload);
  // A profile's own workload of that name has its lengths, which may be those of a small model.
  if (profile && profile->workload.name == options.workload) return profile->workload;
  return workload_named(options.workload);
}

std::string load_words(const LoadWatch::Seen& seen) {
  if (seen.looks == 0) return "/metrics: the server has none";
  std::string words = fmt::format("/metrics, most of {} looks:", seen.looks);
  const auto add = [&](const char* what, const std::optional<double>& value) {
    words += fmt::format(" {} {};", what, value ? fmt::format("{:g}", *value) : "unknown");
  };
  add("running", seen.most.running);
  add("waiting", seen.most.waiting);
  add("preemptions", seen.most.preemptions);
  add("share of the KV cache in use", seen.most.cache_use);
  words.pop_back();
  return words;
}

nlohmann::json or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

ExitCode code_of(const std::string& verdict) {
  if (verdict == "refuted") return ExitCode::regression;
  return verdict == "confirmed" ? ExitCode::done : ExitCode::indeterminate;
}

ExitCode run_confirm(const ConfirmOptions& options) {
  const ServerUrl url = server_url("--url", options.url);
  const std::string key = api_key(options.key_variable);
  std::string file;
  std::optional<LaunchProfile> profile;
  std::error_code ignored;  // no run yet
  if (!options.profile.empty() || fs::exists(fs::path(runs_folder) / "latest", ignored)) {
    file = profile_file(options.profile);
    profile = load_launch_profile(file);
  }
  const Workload workload = workload_of(options, profile);
  const HttpLimits limits{.connect_seconds = std::min(HttpLimits().connect_seconds, options.timeout_seconds),
                          .silence_seconds = options.timeout_seconds};
  options.console.log(
      fmt::format("waiting for {}: up to {:g} s for each answer to begin or to go on (--timeout)", url.text(),
                  limits.silence_seconds));
  HttpClient client(url, key, limits);
  const std::string model = model_name(client, options.served_name);
  const auto start = std::chrono::steady_clock::now();
  ServedWorkload served(
      url, key, model, workload, text_of(options.calibration),
      [start] {
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      },
      limits);
  options.console.log(fmt::format("{} at {}, workload {} ({} + {} tokens, {} at a time)", printable(model),
                                  url.text(), printable(workload.name), workload.prompt_tokens,
                                  workload.output_tokens, workload.sequences));
  LoadWatch watch(url, key);
  const ServedResult result =
      measure_served(served, options.seconds, [&](const std::string& words) { options.console.log(words); });
  const LoadWatch::Seen seen = watch.stop();
  if (!result.failure.empty())
    throw InputError(
        "--url", result.failure,
        "a server that completes every request of the workload; a longer --timeout where it needs one");

  std::string text;
  for (const auto& [metric, measured] : result.metrics) {
    text += fmt::format("{}: {}", metric, value_text(metric, measured.value));
    if (measured.low && measured.high)
      text += fmt::format(" (95 % interval {}-{})", number_text(metric, *measured.low),
                          number_text(metric, *measured.high));
    text += measured.p99 ? fmt::format(", p99 {}, n {}\n", number_text(metric, *measured.p99), measured.n)
                         : fmt::format(", n {}\n", measured.n);
  }
  nlohmann::json document = {{"url", url.text()},
                             {"model", model},
                             {"workload", to_json_value(workload)},
                             {"metrics", to_json_value(result.metrics)},
                             {"server_tpot_ms", or_null(result.server_tpot_ms)},
                             {"remarks", result.remarks},
                             {"answers", result.answers},
                             {"cut_short", result.cut_short},
                             {"profile", file.empty() ? nlohmann::json() : nlohmann::json(file)},
                             {"load",
                              {{"looks", seen.looks},
                               {"running", or_null(seen.most.running)},
                               {"waiting", or_null(seen.most.waiting)},
                               {"preemptions", or_null(seen.most.preemptions)},
                               {"cache_use", or_null(seen.most.cache_use)}}}};
  if (result.server_tpot_ms)
    text +=
        fmt::format("the server's own time per token: {}\n", value_text("tpot_ms", *result.server_tpot_ms));
  for (const std::string& remark : result.remarks) text += wrapped(remark, 80, 2) + "\n";
  text += wrapped(load_words(seen), 80, 2);
  ExitCode code = ExitCode::done;
  if (profile) {
    Confirmation confirmation = judged(*profile, result.metrics, options.tolerance);
    if (workload.name != profile->workload.name) {
      confirmation.verdict = "indeterminate";
      confirmation.reason = fmt::format("measured with workload {}, the profile is for {}", workload.name,
                                        profile->workload.name);
    }
    confirmation.measured_at = utc_now();
    confirmation.server = url.text();
    confirmation.model = model;
    confirmation.workload = workload.name;
    profile->confirmations.push_back(confirmation);
    write_file_atomically(file, to_json_value(*profile).dump(2) + "\n");
    text +=
        "\n" + wrapped(fmt::format("{}: {}. Written into {}; 'moetune report' takes it into the run's pages.",
                                   confirmation.verdict, confirmation.reason, file),
                       80, 0);
    document["verdict"] = confirmation.verdict;
    document["reason"] = confirmation.reason;
    code = code_of(confirmation.verdict);
  } else {
    text += "\nNo profile was given, and there is no run here: nothing is confirmed or refuted.";
  }
  options.console.result(text);
  options.console.document(document);
  return code;
}

}  // namespace

Command add_confirm_command(CLI::App& program) {
  auto options = std::make_shared<ConfirmOptions>();
  CLI::App& command = add_subcommand(
      program, "confirm", "Measure a running server with a workload; confirm or refute a profile",
      "Sends the workload to /v1/completions by streaming and times what comes back. The verdict is written "
      "into the profile. "
      "Exit codes: 0 confirmed (or only measured), 3 refuted, 5 indeterminate.\n\n"
      "  moetune confirm --url http://127.0.0.1:8000 --workload chat runs/latest");
  add_text_option(command, "PROFILE", options->profile, "FILE|DIR|NAME",
                  "Profile to confirm; default the newest run, or none");
  required(add_text_option(command, "--url", options->url, "URL",
                           "Of an OpenAI-compatible server, such as http://127.0.0.1:8000"));
  add_text_option(command, "--workload", options->workload, "NAME|FILE",
                  "Workload to send; default the profile's");
  add_text_option(command, "--served-name", options->served_name, "NAME",
                  "What the server calls the model; default the first of /v1/models");
  add_text_option(command, "--calibration", options->calibration, "FILE",
                  "Text to prompt with; default the embedded model's");
  add_text_option(command, "--api-key-env", options->key_variable, "NAME",
                  "Environment variable that holds the server's API key");
  add_parsed_option(command, "--budget", options->seconds, parse_duration_seconds, "TIME",
                    "For measuring, such as 90s", "60s");
  add_parsed_option(command, "--timeout", options->timeout_seconds, parse_duration_seconds, "TIME",
                    "Longest that the server may send nothing while it is waited for", "300s");
  add_parsed_option(command, "--threshold", options->tolerance, parse_per_cent, "P%",
                    "How much slower than our engine the server may be", "10%");
  add_output_options(command, options->console);
  return {&command, [options] { return run_confirm(*options); }};
}

}  // namespace moetune
