// Where a run lives: request.json, hardware.json, trials.jsonl and what is rendered from them. Holding a
// RunDirectory is holding its lock: nobody else tunes in it meanwhile. Start at RunDirectory::create() and
// ::resume().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tuner/descriptor.h"
#include "tuner/durable_file.h"

namespace moetune {

// What was asked for; request.json.
struct RunRequest {
  // The study: these decide which trials come and what they measure. A resume must bring the same ones.
  std::string model;  // name, for headings and the directory's name
  std::string model_hash;
  std::string workload;
  std::string space;
  std::string space_hash;
  std::string searcher;
  std::vector<std::string> objectives;
  std::uint64_t seed = 1;
  nlohmann::json default_configuration = nlohmann::json::object();
  // Whatever else changes a measurement, by name: workload lengths, calibration hash, device, threads, device
  // memory.
  nlohmann::json conditions = nlohmann::json::object();

  std::string gate;  // "int8"; what is measured again and recommended

  // These may differ from one sitting to the next; the file keeps what the first one had.
  std::string slo;                   // "tpot_p99=50ms"; empty: none
  bool slo_asked = false;            // with --slo; otherwise it is the workload's own, which only prefers
  std::vector<std::string> command;  // argv, for "how to reproduce"
  std::string build;                 // version and commit
};

nlohmann::json to_json_value(const RunRequest& request);
RunRequest run_request_from_json(const nlohmann::json& object,
                                 const std::string& where);  // throws InputError

// The option that a field of request.json or hardware.json follows from ("conditions.latency_seconds" ->
// "--timing"), for a person who has to give it again; "": none. Which there are is for the commands to know.
using OptionOf = std::function<std::string(const std::string& field)>;

class RunDirectory {
 public:
  // A new run in `path`, made with its parents. Throws InputError when there is something in it already
  // (nothing is touched), when somebody else holds it, or when it cannot be made. hardware: the fingerprint
  // as JSON; kept as it is.
  static RunDirectory create(const std::string& path, const RunRequest& request,
                             const nlohmann::json& hardware);

  // Goes on with the run in `path`. Throws InputError naming the first field of the study that differs and
  // its option, and where there is no run (no such folder, or one with other files: nothing is touched). A
  // directory that is empty, or in which a killed run has not written its request yet, becomes a new run;
  // is_new() and notice() say so.
  static RunDirectory resume(const std::string& path, const RunRequest& request,
                             const nlohmann::json& hardware, const OptionOf& option_of = {});

  const std::string& path() const { return path_; }
  bool is_new() const { return is_new_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string trials_file() const { return file("trials.jsonl"); }
  // What a person should hear once: a build that is not the one the run began with. Empty: nothing.
  const std::string& notice() const { return notice_; }

 private:
  RunDirectory(std::string path, Descriptor lock);
  void begin(const RunRequest& request, const nlohmann::json& hardware);
  std::string path_;
  std::string notice_;
  Descriptor lock_;  // closing it gives the lock back
  bool is_new_ = true;
};

// "runs/20261129T164639Z-tiny-moe-chat", with "-2", "-3" ... when that exists. Characters that a file name
// should not have become '_'.
std::string new_run_path(const std::string& runs_folder, const std::string& model,
                         const std::string& workload);

// Makes runs_folder/latest a link to the run, replacing an older link at once. Throws std::runtime_error.
void link_latest(const std::string& runs_folder, const std::string& run_path);

}  // namespace moetune
