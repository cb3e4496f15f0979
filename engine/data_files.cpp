#include "engine/data_files.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/facts/error.h"
#include "engine/presets.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;  // unreadable counts as not there
  return fs::is_directory(path, ignored);
}

// Models lie in models/ of an installation and in engine/models/ of the source tree.
fs::path models_below(const fs::path& root) {
  return is_folder(root / "models") ? root / "models" : root / "engine" / "models";
}

bool is_data_root(const fs::path& root) { return is_folder(models_below(root)); }

std::optional<fs::path> program_folder() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return std::nullopt;
  return program.parent_path();
}

std::optional<fs::path> data_root() {
  if (const char* const chosen = std::getenv("MOETUNE_DATA"); chosen != nullptr && *chosen != '\0') {
    if (!is_data_root(chosen))
      throw InputError("MOETUNE_DATA", chosen, "a folder with models/, search_spaces/, profiles/");
    return chosen;
  }
  const std::optional<fs::path> folder = program_folder();
  if (!folder) return std::nullopt;
  fs::path installed = folder->parent_path() / "share" / "moetune";
  if (is_data_root(installed)) return installed;
  // build/<preset>/moetune and build/<preset>/tests/<program> alike; no further up, where a stranger's folder
  // could match.
  fs::path above = *folder;
  for (int step = 0; step < 3; ++step) {
    above = above.parent_path();
    if (is_folder(above / "engine" / "models")) return above;
  }
  return std::nullopt;
}

std::string folder_named(const char* name) {
  const std::optional<fs::path> root = data_root();
  return root && is_folder(*root / name) ? (*root / name).string() : "";
}

}  // namespace

std::string models_folder() {
  const std::optional<fs::path> root = data_root();
  return root ? models_below(*root).string() : "";
}

std::string presets_folder() {
  const std::string models = models_folder();
  const fs::path folder = fs::path(models) / "presets";
  return !models.empty() && is_folder(folder) ? folder.string() : "";
}

std::string search_spaces_folder() { return folder_named("search_spaces"); }
std::string profiles_folder() { return folder_named("profiles"); }

std::string server_tables_folder() {
  const std::string installed = folder_named("server_flags");
  return installed.empty() ? folder_named("tuner/export/flags") : installed;
}

std::string claims_file() {
  const std::optional<fs::path> root = data_root();
  if (!root) return "";
  for (const char* const name : {"claims.json", "reports/claims.json"})
    if (fs::exists(*root / name)) return (*root / name).string();
  return "";
}

std::string data_places() {
  if (const char* const chosen = std::getenv("MOETUNE_DATA"); chosen != nullptr && *chosen != '\0')
    return fmt::format("{}, which MOETUNE_DATA names", chosen);
  const std::optional<fs::path> folder = program_folder();
  if (!folder) return "MOETUNE_DATA, which is not set";
  return fmt::format("{}, nor in a source tree above {}",
                     (folder->parent_path() / "share" / "moetune").string(), folder->string());
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  const std::string folder = models_folder();
  if (folder.empty()) return names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "config.json")) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string model_directory(const std::string& directory_or_name) {
  if (is_folder(directory_or_name)) return directory_or_name;
  std::vector<std::string> names = model_names();
  if (std::ranges::find(names, directory_or_name) != names.end())
    return (fs::path(models_folder()) / directory_or_name).string();
  const std::vector<std::string> presets = preset_names();
  const std::string before_colon = directory_or_name.substr(0, directory_or_name.find(':'));
  if (before_colon != directory_or_name && std::ranges::find(names, before_colon) != names.end())
    throw InputError("model",
                     fmt::format("\"{}\": {} is a trained model, of which nothing can be overridden",
                                 directory_or_name, before_colon),
                     presets.empty() ? before_colon
                                     : fmt::format("{}, or overrides of a preset: {}", before_colon,
                                                   fmt::join(presets, ", ")));
  names.insert(names.end(), presets.begin(), presets.end());
  throw InputError("model", fmt::format("\"{}\" is no directory", directory_or_name),
                   names.empty() ? "a checkpoint directory with config.json"
                                 : fmt::format("a checkpoint directory with config.json, or one of: {}",
                                               fmt::join(names, ", ")));
}

}  // namespace moetune
