#include "engine/cache_folder.h"

#include <cstdlib>

namespace moetune {
namespace {

std::filesystem::path absolute_path_in(const char* variable) {
  const char* const value = std::getenv(variable);
  const std::filesystem::path path = value == nullptr ? "" : value;
  return path.is_absolute() ? path : std::filesystem::path();
}

}  // namespace

std::filesystem::path cache_folder() {
  if (const auto cache = absolute_path_in("XDG_CACHE_HOME"); !cache.empty()) return cache / "moetune";
  if (const auto home = absolute_path_in("HOME"); !home.empty()) return home / ".cache" / "moetune";
  return {};
}

}  // namespace moetune
