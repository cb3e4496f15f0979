#include "tuner/trial_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/checksum.h"
#include "tuner/durable_file.h"
#include "tuner/json_fields.h"
#include "tuner/problems.h"

namespace moetune {
namespace {

// A line is BODY,"checksum":"0a1b2c3d"} where BODY is the trial's object without its closing brace.
constexpr std::string_view checksum_head = ",\"checksum\":\"";
constexpr std::string_view checksum_tail = "\"}";
constexpr std::size_t checksum_digits = 8;
constexpr std::size_t suffix_size = checksum_head.size() + checksum_digits + checksum_tail.size();

std::string checksum_suffix(std::string_view body) {
  return fmt::format("{}{:08x}{}", checksum_head, crc32(body), checksum_tail);
}

// The trial's JSON text when the checksum of the line holds.
std::optional<std::string> verified(std::string_view line) {
  if (line.size() <= suffix_size) return std::nullopt;
  const std::string_view body = line.substr(0, line.size() - suffix_size);
  if (line.substr(body.size()) != checksum_suffix(body)) return std::nullopt;
  return std::string(body) + "}";
}

// Does something follow a line's end that is not a line end? Then a line end was overwritten: that is damage
// to a whole trial, not a torn write. Inside a text the quotes of the suffix would be escaped, so it cannot
// be found there.
bool runs_on(std::string_view line) {
  const std::size_t suffix = line.find(checksum_head);
  return suffix != std::string_view::npos && line.size() > suffix + suffix_size;
}

// What a log holds once, and holds before this line already: counted twice it would weigh twice.
void refuse_doubled(const Trial& trial, const std::string& where, const std::vector<Trial>& measured_again,
                    const std::vector<Trial>& recordings) {
  const auto is_same = [&](const Trial& other) {
    return other.number == trial.number && other.turn == trial.turn;
  };
  if (trial.turn && std::ranges::any_of(measured_again, is_same))
    refuse(where,
           fmt::format("the turn of trial {} in pass {} of the final round after {} trials is doubled",
                       trial.number, trial.turn->pass, trial.turn->after),
           "each finalist once a pass");
  else if (trial.is_recording && std::ranges::any_of(recordings, is_same))
    refuse(where, fmt::format("the recording of trial {} is doubled", trial.number), "one of each trial");
}

// trials: those of the search before it, of which a damaged one may be missing; measured_again, recordings:
// the other lines before it; expected_number: of a trial of the search.
Trial trial_from_text(const std::string& text, const std::string& where, const std::vector<Trial>& trials,
                      const std::vector<Trial>& measured_again, const std::vector<Trial>& recordings,
                      std::int64_t expected_number) {
  Trial trial = trial_from_json(parse_json(text, where), where);
  if (!trial.turn && !trial.is_recording) {
    if (trial.number != expected_number)
      refuse(where, fmt::format("trial number {}", trial.number),
             fmt::format("{}, as trials are counted without a gap", expected_number));
    return trial;
  }
  const auto before = static_cast<std::int64_t>(trials.size());
  const bool is_known = trial.number >= 0 && trial.number < before;
  if (trial.turn && trial.turn->after != before)
    refuse(where + ": final_round.after", std::to_string(trial.turn->after),
           fmt::format("{}, the trials before it", before));
  if (trial.turn &&
      (!is_known || std::ranges::find(trial.turn->finalists, trial.number) == trial.turn->finalists.end()))
    refuse(where, fmt::format("trial number {}", trial.number), "one of the finalists");
  else if (!is_known)
    refuse(where, fmt::format("trial number {}", trial.number),
           "one of the trials before it, whose time was recorded");
  else if (trial.configuration != trials[static_cast<std::size_t>(trial.number)].configuration)
    refuse(where + ": configuration", "'" + trial.configuration.key() + "'",
           fmt::format("that of trial {}, which is measured again", trial.number));
  else
    refuse_doubled(trial, where, measured_again, recordings);
  return trial;
}

std::vector<Trial>& kind_of(const Trial& trial, std::vector<Trial>& search, std::vector<Trial>& again,
                            std::vector<Trial>& recordings) {
  return trial.is_recording ? recordings : trial.turn ? again : search;
}

std::string read_bytes(const std::string& file) {
  const Descriptor descriptor = open_file(file, O_RDONLY);
  std::string text;
  std::string block(std::size_t{1} << 16, '\0');
  ssize_t count = -1;
  while (descriptor.is_open() && (count = ::read(descriptor.number(), block.data(), block.size())) != 0) {
    if (count < 0 && errno != EINTR) break;
    if (count > 0) text.append(block, 0, static_cast<std::size_t>(count));
  }
  if (count < 0) throw InputError(file, "cannot be read: " + error_text(errno), "a readable trial log");
  return text;
}

}  // namespace

TrialLogContents parse_trial_log(std::string_view text, const std::string& file) {
  TrialLogContents contents;
  std::size_t line_number = 0;
  std::int64_t expected = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t line_end = text.find('\n', start);
    const bool ended = line_end != std::string_view::npos;
    const std::string_view line = text.substr(start, ended ? line_end - start : std::string_view::npos);
    const std::size_t next = ended ? line_end + 1 : text.size();
    const std::string where = fmt::format("{}:{}", file, ++line_number);

    const std::optional<std::string> object = verified(line);
    if (!object && next == text.size() && !runs_on(line)) {
      contents.torn = fmt::format(
          "{}: the last line is torn ({} bytes, checksum does not hold): dropped; {} trials before it are "
          "intact",
          where, text.size() - start,
          contents.trials.size() + contents.measured_again.size() + contents.recordings.size());
      return contents;
    }
    std::int64_t next_expected = expected + 1;  // a line that cannot be read is taken for a trial
    if (!object)
      refuse(where, "the line is damaged: its checksum does not hold",
             "the line as moetune wrote it; lines after it are still there");
    else
      attempt([&] {
        Trial trial = trial_from_text(*object, where, contents.trials, contents.measured_again,
                                      contents.recordings, expected);
        const bool is_of_search = !trial.turn && !trial.is_recording;
        next_expected = is_of_search ? trial.number + 1 : expected;
        kind_of(trial, contents.trials, contents.measured_again, contents.recordings)
            .push_back(std::move(trial));
      });
    expected = next_expected;
    contents.intact_bytes = next;
    contents.last_newline_missing = !ended;
    start = next;
  }
  return contents;
}

TrialLogContents read_trial_log(const std::string& file) { return parse_trial_log(read_bytes(file), file); }

std::string to_log_line(const Trial& trial) {
  // `replace`: a reason may quote what a dying worker printed, which need not be UTF-8.
  std::string line = to_json_value(trial).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  line.pop_back();
  return line + checksum_suffix(line) + "\n";
}

TrialLog::TrialLog(std::string file) : file_(std::move(file)) {
  const auto refuse = [&](const char* what) {
    throw std::runtime_error(file_ + ": " + what + ": " + error_text(errno));
  };
  descriptor_ = open_file(file_, O_RDWR | O_CREAT | O_APPEND);
  if (!descriptor_.is_open()) refuse("cannot be opened for writing");
  sync_folder_of(file_);

  TrialLogContents contents = read_trial_log(file_);
  trials_ = std::move(contents.trials);
  measured_again_ = std::move(contents.measured_again);
  recordings_ = std::move(contents.recordings);
  torn_ = std::move(contents.torn);
  bytes_ = contents.intact_bytes;
  if (!torn_.empty()) {
    if (::ftruncate(descriptor_.number(), static_cast<off_t>(bytes_)) != 0)
      refuse("the torn last line cannot be cut off");
  } else if (contents.last_newline_missing) {
    if (!write_all(descriptor_.number(), "\n")) refuse("the last line cannot be ended");
    ++bytes_;
  }
  if (::fsync(descriptor_.number()) != 0) refuse("cannot be brought to the disk");
}

const Trial& TrialLog::append(const Trial& trial) {
  const std::string line = to_log_line(trial);
  Trial as_logged;
  try {
    as_logged = trial_from_text(*verified(std::string_view(line).substr(0, line.size() - 1)), file_, trials_,
                                measured_again_, recordings_, static_cast<std::int64_t>(trials_.size()));
  } catch (const InputError& error) {
    throw std::logic_error(
        fmt::format("a trial that cannot follow {} trials: {}", trials_.size(), error.what()));
  }
  if (!write_all(descriptor_.number(), line) || ::fsync(descriptor_.number()) != 0) {
    const int error = errno;
    const bool undone = ::ftruncate(descriptor_.number(), static_cast<off_t>(bytes_)) == 0;
    // When even cutting back fails the reader drops the rest as a torn line: intact either way.
    throw std::runtime_error(fmt::format(
        "{}: trial {} could not be written: {}. The {} trials before it are intact{}", file_, trial.number,
        error_text(error), trials_.size() + measured_again_.size() + recordings_.size(),
        undone ? "" : " (a torn line follows them)"));
  }
  bytes_ += line.size();
  std::vector<Trial>& kind = kind_of(as_logged, trials_, measured_again_, recordings_);
  kind.push_back(std::move(as_logged));
  return kind.back();
}

}  // namespace moetune
