// Options that several subcommands share, and what they mean. Start at add_common_options(); model_of() and
// workload_of() turn the texts into things.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/facts/model_spec.h"
#include "engine/facts/workload.h"
#include "tuner/commands/console.h"
#include "tuner/commands/gpu_probe.h"
#include "tuner/commands/options.h"

namespace moetune {

struct CommonOptions {
  std::string model = "tiny-moe";
  std::string device = "auto";
  std::string workload = "chat";
  std::optional<Workload> fixed_workload;  // as a profile has it; instead of `workload`
  std::string calibration;                 // empty: the model's own
  std::uint64_t seed = 1;
  int threads = 0;                       // 0: all this process may use
  std::int64_t device_memory_bytes = 0;  // 0: what the machine has
  double usd_per_hour = 0.0;             // 0: not given
  std::string prices;                    // file that has the rent of this box; empty: none
  Console console;
};

// Which of them a subcommand takes.
struct TakesOptions {
  bool model = true;
  bool workload = true;
  bool workload_name = true;  // --workload and --seed among them: a profile may have settled both
};

// Values are checked while they are read: InputError names flag, value and what is accepted.
void add_common_options(CLI::App& command, CommonOptions& common, const TakesOptions& takes);

// Adds --json and --quiet only.
void add_output_options(CLI::App& command, Console& console);

// Workloads of --workload: names or files, separated by commas. A named one is cut to the model's context,
// and cuts, where given, says how, by name; one of a file that needs more is refused.
std::vector<Workload> workloads_of(const CommonOptions& common, const ModelSpec& spec,
                                   std::map<std::string, std::string>* cuts = nullptr);

// There is a GPU that `--device auto` could not take; empty: no GPU here, or nobody wanted one.
std::string unused_gpu_message(const DeviceChoice& device);
// What is slower on a GPU because there is no cuBLAS, and what would help; empty: there is one, or it would
// not be used.
std::string no_cublas_message(DeviceKind kind);

}  // namespace moetune
