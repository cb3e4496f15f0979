#include "engine/untried.h"

#include <cstdlib>

namespace moetune {

bool takes_untried(std::string_view what) {
  const char* set = std::getenv("MOETUNE_UNTRIED");
  std::string_view left = set != nullptr ? set : "";
  while (!left.empty()) {
    const std::string_view name = left.substr(0, left.find(','));
    if (name == what) return true;
    left.remove_prefix(name.size() < left.size() ? name.size() + 1 : left.size());
  }
  return false;
}

}  // namespace moetune
