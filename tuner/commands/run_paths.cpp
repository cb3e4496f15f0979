#include "tuner/commands/run_paths.h"

#include <filesystem>

#include "engine/facts/error.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string latest_run() {
  const fs::path link = fs::path(runs_folder) / "latest";
  std::error_code failed;
  const fs::path run = fs::read_symlink(link, failed);
  if (failed || !fs::is_directory(link))
    throw InputError(link.string(), "no run here yet", "a run directory, or 'moetune tune' first");
  return (fs::path(runs_folder) / run).string();
}

std::string run_named(const std::string& path) {
  if (path.empty()) return latest_run();
  if (!fs::is_directory(path)) throw InputError(path, "no such directory", "a run directory of moetune tune");
  return path;
}

}  // namespace moetune
