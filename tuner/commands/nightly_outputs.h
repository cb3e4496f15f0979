// The files and lines in which a night's check is handed to CI systems. Start at NightlyOutputs.
#pragma once

#include <optional>
#include <string>

#include "tuner/commands/console.h"
#include "tuner/commands/options.h"
#include "tuner/commands/partial_file.h"
#include "tuner/nightly_record.h"

namespace moetune {

struct NightlyOutputOptions {
  std::string junit;
  std::string summary;
  std::string prometheus;
};
void add_nightly_output_options(CLI::App& command, NightlyOutputOptions& options);

class NightlyOutputs {
 public:
  // Opens every file now: a wrong path must not cost the time of measuring. Throws InputError.
  explicit NightlyOutputs(const NightlyOutputOptions& options);
  // Writes them, and annotations where GITHUB_ACTIONS says that somebody reads them. Throws
  // std::runtime_error (disk).
  void write(const NightlyRecord& record, const Console& console);

 private:
  std::optional<PartialFile> junit_;
  std::optional<PartialFile> summary_;
  std::string
      appended_summary_;  // GitHub's own file, which earlier steps have written to; empty: another one
  std::optional<PartialFile> prometheus_;
};

}  // namespace moetune
