#include "tuner/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/problems.h"
#include "tuner/report/escape.h"
#include "tuner/utc_time.h"

namespace moetune {
namespace {
using nlohmann::json;
namespace fs = std::filesystem;

// Fields that make two trials comparable, and the gate: finalists, profile and reports all go by the one that
// the file keeps. The others say how a sitting was asked for. What a person asks for comes before what
// follows from it: the first difference is named.
constexpr std::array study_fields{
    "model",      "model_hash", "workload", "space",      "space_hash",           "searcher",
    "objectives", "seed",       "gate",     "conditions", "default_configuration"};

// Facts that do not change between two probes of one machine; measured rates do.
constexpr std::array hardware_identity{"device", "gpu_count", "cpu_name", "cpu_cores", "simd"};

Descriptor lock(const std::string& path) {
  const std::string file = path + "/lock";
  Descriptor descriptor = open_file(file, O_RDWR | O_CREAT);
  if (!descriptor.is_open())
    throw InputError(path, "cannot be written to: " + error_text(errno), "a writable folder");
  if (::flock(descriptor.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw std::runtime_error(file + ": cannot be locked: " + error_text(errno));
    std::array<char, 32> holder{};
    const ssize_t count = ::pread(descriptor.number(), holder.data(), holder.size() - 1, 0);
    const std::string process =
        count > 0 ? " (process " + std::to_string(std::atoll(holder.data())) + ")" : "";
    throw InputError(
        path, "another moetune is tuning there" + process,
        "a run directory of its own; 'moetune tune --resume' goes on with a tune that has ended");
  }
  // Only for the message above; the lock itself is the kernel's and ends with the process.
  const std::string process = std::to_string(::getpid()) + "\n";
  if (::ftruncate(descriptor.number(), 0) != 0 ||
      ::pwrite(descriptor.number(), process.data(), process.size(), 0) < 0)
    throw std::runtime_error(file + ": cannot be written: " + error_text(errno));
  return descriptor;
}

struct Difference {
  std::string field;  // "conditions.threads"
  json was;
  json is;
};

json value_of(const json& object, const std::string& field) {
  return object.is_object() ? object.value(field, json()) : json();
}

// The first field at which two values differ; nothing: they are equal.
std::optional<Difference> difference(const json& was, const json& is, const std::string& name) {
  if (was == is) return std::nullopt;
  if (was.is_object() && is.is_object()) {
    json names = was;
    names.update(is);
    for (const auto& [field, unused] : names.items()) {
      auto found = difference(value_of(was, field), value_of(is, field), name + "." + field);
      if (found) return found;
    }
  }
  return Difference{name, was, is};
}

// "--seed was 1 and is 4", "--timing was 0.2 and is 2.0 (conditions.latency_seconds in run/request.json)"
std::string in_words(const Difference& found, const std::string& option, const std::string& file) {
  if (option.empty())
    return fmt::format("{} was {} and is {}", found.field, shown(found.was), shown(found.is));
  const std::string text = fmt::format("{} was {} and is {}", option, shown(found.was), shown(found.is));
  return option == "--" + found.field ? text : fmt::format("{} ({} in {})", text, found.field, file);
}

// was: of `file` in the run directory `path`, which was begun with `command`. Throws InputError.
void insist_on_same(const json& was, const json& is, std::span<const char* const> fields,
                    const std::string& path, const std::string& file, const OptionOf& option_of,
                    std::span<const std::string> command) {
  for (const char* field : fields) {
    const auto found = difference(value_of(was, field), value_of(is, field), field);
    if (!found) continue;
    const std::string option = option_of ? option_of(found->field) : "";
    throw InputError(path, "cannot be resumed: " + in_words(*found, option, path + "/" + file),
                     fmt::format("the options that the run began with on the same machine: {}; or another "
                                 "run directory",
                                 shell_command(command)));
  }
}

bool has_leftovers(const std::string& path) {
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().filename() != "lock") return true;
  return false;
}

// May files of that name be all that a run leaves which was killed before its request.json stood?
bool is_of_beginning(const std::string& name) {
  return name == "lock" || name == "hardware.json" || name == "hardware.json.new" ||
         name == "request.json.new";
}

// Throws InputError where `path` holds neither a run nor what the beginning of one leaves behind. An empty
// folder is such a beginning: it is made before the lock is.
void insist_on_run(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    throw InputError(path, "no run there to resume: no such folder",
                     "the run directory of an earlier moetune tune; without --resume one is begun");
  if (fs::exists(path + "/request.json")) return;
  if (fs::exists(path + "/trials.jsonl"))
    throw InputError(path + "/request.json", "is missing although there are trials",
                     "the request.json of that run");
  const bool was_locked = fs::exists(path + "/lock");
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (!was_locked || !is_of_beginning(name))
      throw InputError(path, fmt::format("no run there to resume: it holds '{}', but no request.json", name),
                       "the run directory of an earlier moetune tune; without --resume one is begun in a new "
                       "or empty folder");
  }
}

// As it reads back from a file: an argument that is not UTF-8 is made so.
json as_written(const json& value) {
  return json::parse(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw InputError(path, "cannot be made: " + error.message(), "a folder that can be made and written to");
}

}  // namespace

json to_json_value(const RunRequest& request) {
  return {{"schema", 1},
          {"model", request.model},
          {"model_hash", request.model_hash},
          {"workload", request.workload},
          {"space", request.space},
          {"space_hash", request.space_hash},
          {"searcher", request.searcher},
          {"objectives", request.objectives},
          {"seed", request.seed},
          {"default_configuration", request.default_configuration},
          {"conditions", request.conditions},
          {"gate", request.gate},
          {"slo", request.slo},
          {"slo_asked", request.slo_asked},
          {"command", request.command},
          {"build", request.build}};
}

RunRequest run_request_from_json(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.integer("schema", 1, 1);
  const auto texts = [&](std::string_view field) {
    std::vector<std::string> all;
    for (const json& item : fields.array(field)) {
      if (item.is_string())
        all.push_back(item.get<std::string>());
      else
        refuse(fields.place(field), shown(item), "a list of texts");
    }
    return all;
  };
  return {.model = fields.text("model"),
          .model_hash = fields.text("model_hash"),
          .workload = fields.text("workload"),
          .space = fields.text("space"),
          .space_hash = fields.text("space_hash"),
          .searcher = fields.text("searcher"),
          .objectives = texts("objectives"),
          .seed = fields.unsigned_integer("seed"),
          .default_configuration = fields.object("default_configuration"),
          .conditions = fields.object("conditions"),
          .gate = fields.text("gate"),
          .slo = fields.text("slo"),
          .slo_asked = fields.has("slo_asked") && fields.flag("slo_asked"),
          .command = texts("command"),
          .build = fields.text("build")};
}

RunDirectory::RunDirectory(std::string path, Descriptor lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

RunDirectory RunDirectory::create(const std::string& path, const RunRequest& request, const json& hardware) {
  make_folder(path);
  const auto refuse_leftovers = [&] {
    if (has_leftovers(path))
      throw InputError(path, "is not empty",
                       "a new or empty folder; 'moetune tune --resume' goes on with a tune in it");
  };
  // A folder that never was a run is refused before the lock file would appear in it.
  if (!fs::exists(path + "/lock")) refuse_leftovers();
  RunDirectory run(path, lock(path));
  refuse_leftovers();
  run.begin(request, hardware);
  return run;
}

RunDirectory RunDirectory::resume(const std::string& path, const RunRequest& request, const json& hardware,
                                  const OptionOf& option_of) {
  insist_on_run(path);  // before the lock file would appear in a folder that never was a run
  RunDirectory run(path, lock(path));
  insist_on_run(path);
  const std::string request_file = run.file("request.json");
  if (!fs::exists(request_file)) {
    run.notice_ = path + ": nothing to resume (no run began there yet), starting with the first trial";
    run.begin(request, hardware);
    return run;
  }
  const json was = read_json_file(request_file);
  const RunRequest begun = run_request_from_json(was, request_file);
  insist_on_same(to_json_value(begun), as_written(to_json_value(request)), study_fields, path, "request.json",
                 option_of, begun.command);
  insist_on_same(read_json_file(run.file("hardware.json")), as_written(hardware), hardware_identity, path,
                 "hardware.json", option_of, begun.command);
  if (was["build"] != request.build)
    run.notice_ = fmt::format("{}: begun with build {}, going on with {}: times may not be comparable", path,
                              was["build"].get<std::string>(), request.build);
  run.is_new_ = false;
  return run;
}

void RunDirectory::begin(const RunRequest& request, const json& hardware) {
  // request.json last: its presence says that a run began, so a kill before it leaves nothing to compare
  // with.
  write_file_atomically(file("hardware.json"), as_written(hardware).dump(2) + "\n");
  write_file_atomically(file("request.json"), as_written(to_json_value(request)).dump(2) + "\n");
}

std::string new_run_path(const std::string& runs_folder, const std::string& model,
                         const std::string& workload) {
  std::string name = utc_now_compact() + "-" + model + "-" + workload;
  for (char& c : name) {
    const bool safe = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                      c == '-' || c == '_' || c == '.';
    if (!safe) c = '_';
  }
  const std::string path = runs_folder + "/" + name;
  std::string candidate = path;
  for (int number = 2; fs::exists(candidate); ++number) candidate = fmt::format("{}-{}", path, number);
  return candidate;
}

void link_latest(const std::string& runs_folder, const std::string& run_path) {
  make_folder(runs_folder);
  const fs::path run = fs::canonical(run_path);
  const bool inside = run.parent_path() == fs::canonical(runs_folder);
  const std::string link = runs_folder + "/latest";
  const std::string beside = fmt::format("{}.{}.new", link, ::getpid());
  std::error_code error;
  fs::create_symlink(inside ? run.filename() : run, beside, error);
  if (!error) fs::rename(beside, link, error);
  if (error) {
    std::error_code ignored;
    fs::remove(beside, ignored);
    throw std::runtime_error(link + ": cannot be made: " + error.message());
  }
}

}  // namespace moetune
