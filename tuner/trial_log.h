// trials.jsonl: the only state of a run. Append-only, one complete JSON object a line, each ending in a
// checksum of the line before it, each on disk before append() returns. Start at TrialLog; parse_trial_log()
// is the reader alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/descriptor.h"
#include "tuner/trial.h"

namespace moetune {

// What a log holds. The reader accepts any bytes: it returns, or throws InputError naming file and line.
struct TrialLogContents {
  std::vector<Trial> trials;          // of the search, numbered 0, 1, 2 ... without a gap
  std::vector<Trial> measured_again;  // of final rounds, in the order of the log
  std::vector<Trial> recordings;      // of where the time of trials goes, in the order of the log
  std::uint64_t intact_bytes = 0;     // length of the lines that hold them, without a torn rest
  bool last_newline_missing = false;  // the last trial is whole, only its line end was not written any more
  std::string torn;                   // message about a torn last line; empty: none
};

// A last line whose checksum does not hold was being written when the run was killed: dropped, said in
// `torn`. Anything else that is wrong throws InputError ("runs/x/trials.jsonl:4: ...").
TrialLogContents parse_trial_log(std::string_view text, const std::string& file);
TrialLogContents read_trial_log(const std::string& file);  // throws InputError when it cannot be read

// The line as it stands in the log, with its line end. The checksum is CRC-32 (as zlib's) over the bytes
// before `,"checksum"`.
std::string to_log_line(const Trial& trial);

class TrialLog {
 public:
  // Opens for appending, creates an empty log when there is none. A torn last line is cut off; torn() says
  // so. One writer at a time: RunDirectory holds the lock. Throws InputError (unreadable) or
  // std::runtime_error (disk).
  explicit TrialLog(std::string file);

  const std::vector<Trial>& trials() const { return trials_; }
  const std::vector<Trial>& measured_again() const { return measured_again_; }
  const std::vector<Trial>& recordings() const { return recordings_; }
  const std::string& torn() const { return torn_; }
  const std::string& file() const { return file_; }

  // Writes one trial and waits for the disk. trial.number must be trials().size(), or one of them in a final
  // round and of a recording. Returns the trial as a reader of the log will see it: what a searcher is told
  // must not depend on whether it was measured now or read back. Valid until the next append(). On a full
  // disk the partial line is removed again and std::runtime_error says so; the log stays intact.
  const Trial& append(const Trial& trial);

 private:
  std::string file_;
  std::string torn_;
  std::vector<Trial> trials_;
  std::vector<Trial> measured_again_;
  std::vector<Trial> recordings_;
  std::uint64_t bytes_ = 0;  // of the file, all of them intact
  Descriptor descriptor_;
};

}  // namespace moetune
