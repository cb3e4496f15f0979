#include "tuner/report/annotations.h"

#include <fmt/format.h>

namespace moetune {

std::string annotation_text(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '%')
      safe += "%25";
    else if (letter == '\r')
      safe += "%0D";
    else if (letter == '\n')
      safe += "%0A";
    else
      safe += letter;
  }
  return safe;
}

std::string to_annotations(const NightlyRecord& record) {
  const NightlyVerdict verdict = record.result.verdict;
  const char* command = verdict == NightlyVerdict::regression ? "error"
                        : verdict == NightlyVerdict::ok       ? "notice"
                                                              : "warning";
  // The title ends at a comma or colon, so nothing from outside stands in it.
  std::string text = fmt::format(
      "::{} title=moetune ci {}::{}", command, name_of(verdict),
      annotation_text(record.model + ", workload " + record.workload + ": " + record.result.reason));
  for (const std::string& remark : record.result.remarks)
    text += "\n::warning title=moetune ci::" + annotation_text(remark);
  return text;
}

}  // namespace moetune
