// Fuzzes the readers behind the nightly check: ci.json, profiles, and the lines of /proc/<pid>/stat, in which
// a program may call itself anything. Any bytes give a value or an InputError, and a value is written and
// read again as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/launch_profile.h"
#include "tuner/metric_history.h"
#include "tuner/nightly_record.h"
#include "tuner/other_work.h"
#include "tuner/report/history_plot.h"

namespace {
using namespace moetune;

// abort() rather than assert(): a release build must find it too.
void insist(bool holds) {
  if (!holds) std::abort();
}

void check_profile(const nlohmann::json& document) {
  const LaunchProfile profile = launch_profile_from_json(document, "profile.json");
  const nlohmann::json written = to_json_value(profile);
  insist(to_json_value(launch_profile_from_json(written, "again")) == written);
}

void check_night(const nlohmann::json& document) {
  const NightlyEntry entry = nightly_entry_from_json(document, "ci.json");
  HistoryPoint point;
  point.time = entry.started;
  point.model = entry.model;
  point.workload = entry.workload;
  point.device = entry.device;
  point.build = entry.build;
  point.verdict = entry.verdict;
  point.configuration = entry.configuration;
  point.metrics = entry.metrics;
  History history;
  history.series = history_of({point, point});
  insist(!draw_history(history).empty() && !history_markdown(history).empty());
}

template <class Read>
void read(const Read& read) {
  try {
    read();
  } catch (const InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  process_use_from_stat(text);
  read([&] {
    const nlohmann::json document = parse_json(text, "input");
    read([&] { check_profile(document); });
    read([&] { check_night(document); });
  });
  return 0;
}
