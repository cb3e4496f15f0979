#include "engine/sync_tax/range_names.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace moetune {
namespace {

struct RangeName {
  std::string_view text;
  KernelClass is;
};

constexpr std::array table = {
    RangeName{"moetune: router", {Activity::compute, Row::router}},
    RangeName{"moetune: gate_up", {Activity::compute, Row::gate_up}},
    RangeName{"moetune: down_combine", {Activity::compute, Row::down_combine}},
    RangeName{"moetune: shared", {Activity::compute, Row::shared}},
    RangeName{"moetune: dense", {Activity::compute, Row::dense}},
    RangeName{"moetune: attention", {Activity::compute, Row::attention}},
    RangeName{"moetune: head", {Activity::compute, Row::head}},
    RangeName{"moetune: other", {Activity::compute, Row::other}},
    RangeName{"moetune: communication", {Activity::collective, Row::other}},
    RangeName{"moetune: expert_loading", {Activity::expert_copy, Row::other}},
    RangeName{"moetune: synchronisation", {Activity::host_wait, Row::other}},
    RangeName{"moetune: nothing", {Activity::nothing, Row::other}},
};
static_assert(table.size() == kRows + kActivities - 2);  // recording is no part of a model

}  // namespace

std::string_view range_name(Activity activity, Row row) {
  const KernelClass wanted{activity, activity == Activity::compute ? row : Row::other};
  return std::ranges::find(table, wanted, &RangeName::is)->text;
}

std::optional<KernelClass> class_of_range(std::string_view text) {
  const auto* const found = std::ranges::find(table, text, &RangeName::text);
  return found == table.end() ? std::nullopt : std::optional(found->is);
}

}  // namespace moetune
