#include "tuner/commands/nightly_outputs.h"

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "tuner/report/annotations.h"
#include "tuner/report/junit.h"
#include "tuner/report/nightly_prometheus.h"
#include "tuner/report/nightly_summary.h"

namespace moetune {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

void finish(std::optional<PartialFile>& file, const std::string& text) {
  if (!file) return;
  file->write(text.data(), text.size());
  file->finish();
}

}  // namespace

void add_nightly_output_options(CLI::App& command, NightlyOutputOptions& options) {
  add_text_option(command, "--junit", options.junit, "FILE", "JUnit XML");
  add_text_option(command, "--summary", options.summary, "FILE",
                  "Markdown; appended where it is $GITHUB_STEP_SUMMARY");
  add_text_option(command, "--prometheus", options.prometheus, "FILE", "Text file for node_exporter");
}

NightlyOutputs::NightlyOutputs(const NightlyOutputOptions& options) {
  if (!options.junit.empty()) junit_.emplace("--junit", options.junit);
  if (!options.prometheus.empty()) prometheus_.emplace("--prometheus", options.prometheus);
  if (options.summary.empty()) return;
  if (options.summary == environment("GITHUB_STEP_SUMMARY"))
    appended_summary_ = options.summary;
  else
    summary_.emplace("--summary", options.summary);
}

void NightlyOutputs::write(const NightlyRecord& record, const Console& console) {
  finish(junit_, to_junit(record));
  finish(prometheus_, to_prometheus(record));
  const std::string summary = to_markdown(record);
  finish(summary_, summary);
  if (!appended_summary_.empty()) {
    std::ofstream file(appended_summary_, std::ios::app | std::ios::binary);
    file << summary << '\n';
    file.close();
    if (!file) throw std::runtime_error("cannot append to " + appended_summary_);
  }
  if (environment("GITHUB_ACTIONS") != "true") return;
  const std::string annotations = to_annotations(record);
  console.json ? console.warn(annotations) : console.result(annotations);
}

}  // namespace moetune
