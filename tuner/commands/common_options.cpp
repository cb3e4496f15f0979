#include "tuner/commands/common_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "kernels/dense_choice.h"
#include "kernels/parallel_for.h"
#include "moetune/build_info.h"
#include "tuner/commands/quantities.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"

namespace moetune {
namespace {

// The embedded model was trained on short contexts.
constexpr auto quarter_length_model = "tiny-moe";

std::string parse_device(const std::string& flag, const std::string& text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return text;
  throw InputError(flag, "'" + text + "'", "auto, cpu, cuda");
}

// Files of a later build that would change results if they were ignored: refused, never dropped.
void add_refused_option(CLI::App& command, const std::string& flag, const std::string& why) {
  add_read_option(
      command, flag,
      [flag, why](const std::string& text) { throw InputError(flag, "'" + text + "': " + why, ""); }, "...",
      "Not in this build yet");
}

std::optional<Workload> workload_in_file(const std::string& name) {
  if (name.find('/') == std::string::npos && !name.ends_with(".json")) return std::nullopt;
  return workload_from_json(read_json_file(name), name);
}

}  // namespace

void add_output_options(CLI::App& command, Console& console) {
  add_flag(command, "--json", console.json, "One JSON document on stdout, everything else on stderr",
           "Output");
  add_flag(command, "--quiet", console.quiet, "No progress and no remarks", "Output");
}

void add_common_options(CLI::App& command, CommonOptions& common, const TakesOptions& takes) {
  if (takes.model) {
    add_text_option(command, "--model", common.model, "DIR|NAME",
                    "Checkpoint directory, embedded model or preset with overrides, such as "
                    "deepseek-v3:layers=24,top_k=4; see 'moetune list models'");
    add_parsed_option(command, "--device", common.device, parse_device, "auto|cpu|cuda",
                      "Where to run; auto: on the GPU where one can be used", "auto");
    add_parsed_option(
        command, "--threads", common.threads,
        [](const std::string& flag, const std::string& text) {
          return parse_whole_number(flag, text, 1, usable_cores());
        },
        "N", "CPU threads (default: all that this process may use)");
  }
  if (takes.workload) {
    if (takes.workload_name)
      add_text_option(command, "--workload", common.workload, "NAME|FILE",
                      "Workload, or a JSON file with one; see 'moetune list workloads'");
    add_text_option(command, "--calibration", common.calibration, "FILE",
                    "Text to prompt with and to score accuracy on (default: the model's own)");
    if (takes.workload_name)
      add_parsed_option(
          command, "--seed", common.seed,
          [](const std::string& flag, const std::string& text) {
            return parse_whole_number(flag, text, 0, std::numeric_limits<std::int64_t>::max());
          },
          "N", "Seed of every random choice", "1");
    add_parsed_option(command, "--device-memory", common.device_memory_bytes, parse_bytes, "SIZE",
                      "Plan and allocate as on a card or machine with that much memory, such as 12GiB");
    add_parsed_option(command, "--usd-per-hour", common.usd_per_hour, parse_positive, "USD",
                      "Price of this machine, for usd_per_mtok (default: unknown)");
    add_text_option(command, "--prices", common.prices, "FILE",
                    "The same from a list of boxes; schema: profiles/prices.schema.json");
    add_refused_option(
        command, "--gpus",
        "this build runs a model on the first GPU; CUDA_VISIBLE_DEVICES says which one that is");
  }
  add_output_options(command, common.console);
}

std::vector<Workload> workloads_of(const CommonOptions& common, const ModelSpec& spec,
                                   std::map<std::string, std::string>* cuts) {
  if (common.fixed_workload) return {*common.fixed_workload};
  std::vector<Workload> workloads;
  for (const std::string& name : split_list("--workload", common.workload)) {
    std::optional<Workload> workload = workload_in_file(name);
    if (workload && workload->context_tokens() > spec.max_context)
      throw InputError(name,
                       fmt::format("needs a context of {} tokens, and {} has {}", workload->context_tokens(),
                                   spec.name, spec.max_context),
                       "a shorter prompt, shorter answers or fewer rounds");
    if (!workload) {
      workload = workload_named(name);
      if (spec.name == quarter_length_model) workload = quarter_lengths(*workload);
    }
    workload->seed = common.seed;
    const Workload whole = *workload;
    workload = fitted_to_context(whole, spec.max_context);
    if (cuts != nullptr && workload->context_tokens() < whole.context_tokens())
      (*cuts)[workload->name] = fmt::format(
          "cut to the model's context of {} tokens: prompt {} instead of {}, answer {} instead of {}{}",
          spec.max_context, workload->prompt_tokens, whole.prompt_tokens, workload->output_tokens,
          whole.output_tokens,
          whole.rounds > 1 ? fmt::format(", later prompts {} instead of {}", workload->round_prompt_tokens,
                                         whole.round_prompt_tokens)
                           : "");
    const bool repeated =
        std::ranges::any_of(workloads, [&](const Workload& other) { return other.name == workload->name; });
    if (repeated)
      throw InputError("--workload", "'" + workload->name + "' is given twice", "each workload once");
    workloads.push_back(*workload);
  }
  return workloads;
}

std::string no_cublas_message(DeviceKind kind) {
  if (kind != DeviceKind::cuda || why_no_cublas().empty()) return "";
  return fmt::format(
      "cuBLAS is not used: {}. Dense products of prompts run on own kernels, up to {} times as long",
      why_no_cublas(), kMostLostWithoutCublas);
}

std::string unused_gpu_message(const DeviceChoice& device) {
  if (device.why_cpu.empty()) return {};
  const std::array signs = {"/proc/driver/nvidia/version", "/dev/nvidia0"};
  const bool gpu_here = std::ranges::any_of(signs, [](const char* sign) {
    std::error_code ignored;  // unreadable counts as absent
    return std::filesystem::exists(sign, ignored);
  });
  if (!gpu_here) return {};
  if (!build_info::has_cuda) return std::string(build_info::toolkit_advice);
  return "GPU found, but it cannot be used: " + device.why_cpu + ". What follows is for the CPU.";
}

}  // namespace moetune
