#include "tuner/commands/profile_registry.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/data_files.h"
#include "tuner/counted.h"
#include "tuner/durable_file.h"
#include "tuner/launch_profile.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

std::string plain(std::string name) {
  for (char& letter : name)
    if (!(std::isalnum(static_cast<unsigned char>(letter)) || letter == '-' || letter == '.' ||
          letter == '_'))
      letter = '-';
  return name;
}

fs::path place_of(const LaunchProfile& profile, std::int64_t device_memory_bytes) {
  std::string root = profiles_folder();
  if (root.empty()) root = "profiles";
  std::string box = profile.hardware.gpu_count > 0
                        ? fmt::format("{}-x{}", plain(profile.hardware.device), profile.hardware.gpu_count)
                        : std::string("cpu");
  if (device_memory_bytes > 0)
    box += fmt::format("-{:g}GiB", static_cast<double>(device_memory_bytes) / (std::int64_t{1} << 30));
  for (char& letter : box)
    if (letter != 'G' && letter != 'B')
      letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return fs::path(root) / box / plain(profile.model) / (plain(profile.workload.name) + ".json");
}

std::string rounds_text(const LaunchProfile& profile) {
  return profile.final_passes == 0 ? "no final round"
                                   : counted(profile.final_passes, "round") + " of a final round";
}

// What is lost with the profile in that file; empty: there is none, or the same.
std::string replacing_remark(const std::string& file, const LaunchProfile& fresh) {
  std::error_code failed;  // what cannot be looked at is for the writer to complain of
  if (!fs::exists(file, failed)) return "";
  LaunchProfile old;
  try {
    old = load_launch_profile(file);
  } catch (const std::exception& error) {
    return fmt::format("{}: replaces what was there and could not be read ({})", file, error.what());
  }
  if (to_json_value(old) == to_json_value(fresh)) return "";
  std::string remark =
      fmt::format("{}: replaces the profile that was measured {} by {}", file,
                  old.measured_at.empty() ? "at a time that is not known" : old.measured_at,
                  old.hardware.build.empty() ? "a build that is not known" : "build " + old.hardware.build);
  if (fresh.final_passes < old.final_passes)
    remark += fmt::format("; the new one is weaker evidence: {} in place of {}", rounds_text(fresh),
                          old.final_passes);
  return remark;
}

}  // namespace

SavedProfile save_profile(const nlohmann::json& profile, std::int64_t device_memory_bytes) {
  const LaunchProfile parsed = launch_profile_from_json(profile, "profile");
  const fs::path file = place_of(parsed, device_memory_bytes);
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  if (failed) throw std::runtime_error(file.parent_path().string() + ": cannot be made: " + failed.message());
  SavedProfile saved{.file = file.string(), .remark = replacing_remark(file.string(), parsed)};
  write_file_atomically(saved.file, profile.dump(2) + "\n");
  return saved;
}

Registry registered_profiles() {
  Registry registry;
  const std::string folder = profiles_folder();
  if (folder.empty()) return registry;
  std::error_code failed;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, failed);
  for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    // Prices, the catalogue and schemas lie elsewhere.
    const fs::path inside = entry->path().lexically_relative(folder);
    if (entry->path().extension() != ".json" || std::distance(inside.begin(), inside.end()) != 3) continue;
    const std::string file = entry->path().string();
    try {
      registry.profiles.push_back(
          {(inside.parent_path() / inside.stem()).string(), file, load_launch_profile(file)});
    } catch (const std::exception& error) {
      registry.left_out.emplace_back(error.what());
    }
  }
  if (failed) registry.left_out.push_back(folder + ": not all of it can be read: " + failed.message());
  std::ranges::sort(registry.profiles, {}, &RegisteredProfile::name);
  std::ranges::sort(registry.left_out);
  return registry;
}

}  // namespace moetune
