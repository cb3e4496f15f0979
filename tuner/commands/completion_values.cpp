#include "tuner/commands/completion_values.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace moetune {
namespace {

struct Entry {
  std::string_view name;
  std::string_view type;
  std::string_view kind;
  std::string_view suffix = "";
};

constexpr std::array<Entry, 10> entries{{{"--model", "DIR|NAME", "models"},
                                         {"--workload", "NAME|FILE", "workloads"},
                                         {"--space", "NAME|FILE", "spaces"},
                                         {"--searcher", "NAME", "searchers"},
                                         {"--objective", "METRIC,...", "metrics"},
                                         {"--set", "KNOB=VALUE", "knobs", "="},
                                         {"--server", "NAME", "servers"},
                                         {"--with", "NAME", "hardware"},
                                         {"--baseline", "PROFILE|DIR|NAME", "profiles"},
                                         {"PROFILE", "FILE|DIR|NAME", "profiles"}}};

}  // namespace

ListedValues listed_values(const std::string& name, const std::string& type) {
  const auto* const entry = std::ranges::find_if(
      entries, [&](const Entry& each) { return each.name == name && each.type == type; });
  if (entry == entries.end()) return {};
  return {std::string(entry->kind), std::string(entry->suffix)};
}

}  // namespace moetune
