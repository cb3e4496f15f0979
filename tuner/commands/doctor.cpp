// moetune doctor: what this box is, what is wrong with it, and what that says to the complaints people come
// with. The rules: tuner/doctor/. Start at run_doctor().
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "engine/facts/size_text.h"
#include "tuner/commands/box_facts_of.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/table.h"
#include "tuner/counted.h"
#include "tuner/doctor/box_json.h"
#include "tuner/doctor/complaints.h"
#include "tuner/doctor/model_names.h"
#include "tuner/serving/http_client.h"

namespace moetune {
namespace {

struct DoctorOptions {
  Console console;
  std::string box;  // file; empty: this machine
  std::string url;
  std::string model;
  bool quick = false;
};

std::string rate_text(const std::optional<double>& rate) {
  return rate ? fmt::format("{:.1f} GB/s", *rate) : "not measured";
}

template <class Value>
std::string known(const std::optional<Value>& value) {
  return value ? fmt::format("{}", *value) : "?";
}

std::string swap_text(const BoxFacts& box) {
  if (!box.swap_bytes) return "?";
  if (*box.swap_bytes == 0) return "none";
  return fmt::format("{} of {} in use, {} MB/s", size_text(box.swap_used_bytes.value_or(0)),
                     size_text(*box.swap_bytes),
                     box.swapping_mb_per_s ? fmt::format("{:.1f}", *box.swapping_mb_per_s) : "?");
}

Table box_table(const BoxFacts& box) {
  Table table;
  const auto add = [&](const std::string& name, const std::string& value) {
    table.rows.push_back({name, value});
  };
  if (box.gpus.empty()) add("GPU", "none");
  for (const GpuState& gpu : box.gpus) {
    add("GPU", fmt::format("{} {}, {} of {} used", gpu.name, gpu.bus_id,
                           size_text(gpu.used_bytes.value_or(0)), size_text(gpu.memory_bytes.value_or(0))));
    add("", fmt::format("PCIe generation {} x{} (possible: {} x{}), {} NVLinks, memory node {}",
                        known(gpu.pcie_generation), known(gpu.pcie_width), known(gpu.most_pcie_generation),
                        known(gpu.most_pcie_width), known(gpu.nvlinks), known(gpu.numa_node)));
    for (const GpuPeer& peer : gpu.peers)
      add("", fmt::format("to {}: {}, over PCIe {}", peer.bus_id,
                          !peer.nvlink   ? "NVLink not known"
                          : *peer.nvlink ? "NVLink"
                                         : "no NVLink",
                          peer.path.empty() ? "not known" : peer.path));
    add("", fmt::format(
                "kernels run {} % of the time, the link carries {} GB/s, {} C, ECC {}, {} uncorrected errors",
                known(gpu.busy_percent), known(gpu.link_gb_per_s), known(gpu.celsius),
                gpu.ecc_enabled ? (*gpu.ecc_enabled ? "on" : "off") : "?", known(gpu.uncorrected_errors)));
  }
  if (!box.driver_version.empty())
    add("driver", fmt::format("{}, runs CUDA {}", box.driver_version, box.driver_cuda));
  add("build", box.build_has_cuda ? "CUDA " + box.build_cuda : "processor only");
  if (!box.gpus.empty()) add("NCCL", box.nccl_version.empty() ? "none" : box.nccl_version);
  if (!box.gpus.empty())
    add("rates", fmt::format("pinned {}, pageable {}, device memory {}", rate_text(box.pinned_gb_per_s),
                             rate_text(box.pageable_gb_per_s), rate_text(box.device_gb_per_s)));
  add("memory",
      fmt::format("{}, {} available, reads {}", size_text(box.host_bytes),
                  box.available_bytes ? size_text(*box.available_bytes) : "?", rate_text(box.host_gb_per_s)));
  add("swap", swap_text(box));
  add("cores",
      fmt::format("{} usable of {}, quota {}, load {}", box.usable_cores, box.machine_cores,
                  box.quota_cores ? fmt::format("{:.1f}", *box.quota_cores) : "none", known(box.load)));
  add("memory nodes",
      fmt::format("{}, this process runs on {}", box.numa_nodes, fmt::join(box.our_numa_nodes, ", ")));
  add("out of memory", !box.memory_kills        ? "?"
                       : *box.memory_kills == 0 ? "no process was killed for it"
                                                : counted(*box.memory_kills, "process was killed for it",
                                                          "processes were killed for it"));
  return table;
}

void print_finding(const Console& console, const Finding& finding) {
  console.result(
      fmt::format("{} ({})\n  {}", finding.id, name_of(finding.severity), wrapped(finding.what, 78, 2)));
  if (!finding.consequence.empty()) console.result("  so:    " + wrapped(finding.consequence, 78, 9));
  if (!finding.remedy.empty()) console.result("  helps: " + wrapped(finding.remedy, 78, 9));
}

void print_answer(const Console& console, const Answer& answer) {
  console.result("\n\"" + answer.complaint + "\"");
  for (const std::string& cause : answer.causes) console.result("  - " + wrapped(cause, 78, 4));
  console.result("  " + wrapped(answer.next, 78, 2));
}

// Short limits: a list of names is short, and a person waits.
constexpr HttpLimits list_limits{
    .connect_seconds = 5.0, .silence_seconds = 10.0, .body_bytes = std::size_t{1} << 20};

Finding ask_server(const DoctorOptions& options) {
  HttpClient client(server_url("--url", options.url), "", list_limits);
  const HttpReply reply = client.get("/v1/models");
  if (!reply.ok())
    throw InputError("--url", reply.failure,
                     "the address of a server that speaks OpenAI's protocol, such as http://localhost:8000");
  return judge_model_name(options.model, served_models(reply.body, options.url + "/v1/models"), options.url);
}

BoxFacts box_of(const DoctorOptions& options) {
  return options.box.empty() ? look_at_box(!options.quick) : read_box_file(options.box);
}

ExitCode run_doctor(const DoctorOptions& options) {
  if (!options.model.empty() && options.url.empty())
    throw InputError("--model", "given without --url", "both, or --url alone");
  const Console& console = options.console;
  std::optional<Finding> server;
  if (!options.url.empty())
    server = ask_server(options);  // first: a wrong address must not cost the time of looking
  const BoxFacts box = box_of(options);
  const std::vector<Finding> findings = findings_of(box);
  const std::vector<Answer> answers = answers_of(box, findings);

  nlohmann::json document = {{"box", to_json_value(box)},
                             {"findings", nlohmann::json::array()},
                             {"complaints", nlohmann::json::array()}};
  for (const Finding& finding : findings) document["findings"].push_back(to_json_value(finding));
  for (const Answer& answer : answers)
    document["complaints"].push_back(
        {{"complaint", answer.complaint}, {"causes", answer.causes}, {"next", answer.next}});
  if (server) document["server"] = to_json_value(*server);
  console.document(document);

  console.result(box_table(box).text());
  console.result("");
  if (server) {
    print_finding(console, *server);
    console.result("");
  }
  if (findings.empty()) console.result("Nothing is wrong with this box as far as doctor can see.");
  for (const Finding& finding : findings) print_finding(console, finding);
  console.result("\nWhat is often complained about, and what this box says to it:");
  for (const Answer& answer : answers) print_answer(console, answer);
  if (!server)
    print_answer(console,
                 {"the server rejects the model's name",
                  {},
                  "moetune doctor --url http://localhost:8000 --model NAME compares it with what is served"});
  return ExitCode::done;
}

}  // namespace

Command add_doctor_command(CLI::App& program) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App& command =
      add_subcommand(program, "doctor", "What this box is and what is wrong with it",
                     "Each finding with what follows from it and what helps. Run it while a server works: "
                     "then it can say what the GPU waits for.\n\n"
                     "  moetune doctor\n"
                     "  moetune doctor --url http://localhost:8000 --model my-model\n"
                     "  moetune doctor --json > box.json; moetune doctor --box box.json\n\n"
                     "Exit codes: 0 done, whatever was found; 2 bad input, or no answer from --url.");
  add_text_option(command, "--url", options->url, "URL",
                  "Also ask an OpenAI-compatible server which models it serves");
  add_text_option(command, "--model", options->model, "NAME", "With --url: the name that clients send");
  add_flag(command, "--quick", options->quick,
           "Measure no rates: no context on the GPU, no second of reading");
  add_text_option(command, "--box", options->box, "FILE",
                  "Judge another box: what its 'doctor --json' printed");
  add_output_options(command, options->console);
  return {&command, [options] { return run_doctor(*options); }};
}

}  // namespace moetune
