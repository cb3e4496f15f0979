#include "tuner/trial_log.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/support/trials.h"
#include "tuner/checksum.h"

namespace moetune {
namespace {
namespace fs = std::filesystem;

std::string contents_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string log_text(std::int64_t trials) {
  std::string text;
  for (std::int64_t i = 0; i < trials; ++i) text += to_log_line(example_trial(i));
  return text;
}

std::vector<std::string> texts_of(const std::vector<Trial>& trials) {
  std::vector<std::string> texts;
  for (const Trial& trial : trials) texts.push_back(text_of(trial));
  return texts;
}

Trial example_turn(std::int64_t number, std::int64_t after, std::int64_t pass) {
  Trial trial = example_trial(number);
  trial.turn = FinalTurn{.after = after, .finalists = {0, 1, 3}, .pass = pass};
  return trial;
}

TEST(TrialLog, KeepsFinalRoundsApartFromTheSearch) {
  const TemporaryDirectory folder;
  const std::string file = folder / "trials.jsonl";
  {
    TrialLog log(file);
    for (std::int64_t i = 0; i < 4; ++i) log.append(example_trial(i));
    EXPECT_EQ(text_of(log.append(example_turn(1, 4, 0))), text_of(example_turn(1, 4, 0)));
    log.append(example_turn(3, 4, 0));
    log.append(example_trial(4));  // the search goes on: its numbers have no gap
    log.append(example_turn(0, 5, 0));
  }
  const TrialLog log(file);
  EXPECT_EQ(texts_of(log.trials()), texts_of({example_trial(0), example_trial(1), example_trial(2),
                                              example_trial(3), example_trial(4)}));
  EXPECT_EQ(texts_of(log.measured_again()),
            texts_of({example_turn(1, 4, 0), example_turn(3, 4, 0), example_turn(0, 5, 0)}));
}

Trial example_recording(std::int64_t number) {
  Trial trial = example_trial(number);
  trial.is_recording = true;
  return trial;
}

TEST(TrialLog, KeepsRecordingsApartFromTheSearch) {
  const TemporaryDirectory folder;
  const std::string file = folder / "trials.jsonl";
  {
    TrialLog log(file);
    for (std::int64_t i = 0; i < 2; ++i) log.append(example_trial(i));
    EXPECT_EQ(text_of(log.append(example_recording(1))), text_of(example_recording(1)));
    log.append(example_trial(2));  // the search goes on: its numbers have no gap
  }
  const TrialLog log(file);
  EXPECT_EQ(log.trials().size(), 3U);
  EXPECT_EQ(texts_of(log.recordings()), std::vector{text_of(example_recording(1))});
  EXPECT_TRUE(log.measured_again().empty());
}

TEST(TrialLog, ARecordingOfNothingIsRefused) {
  const auto objection = [](const Trial& recording) {
    const std::string text = log_text(2) + to_log_line(recording);
    return message_of<InputError>([&] { parse_trial_log(text, "t"); });
  };
  EXPECT_TRUE(has_text(objection(example_recording(2)),
                       "t:3: trial number 2 (accepted: one of the trials before it"));
  Trial other = example_recording(1);
  other.configuration.values["top_k"] = "1";
  EXPECT_TRUE(has_text(objection(other), "that of trial 1, which is measured again"));
  Trial both = example_recording(1);
  both.turn = FinalTurn{.after = 2, .finalists = {0, 1}, .pass = 0};
  EXPECT_TRUE(has_text(objection(both), "recording: true beside final_round"));
}

TEST(TrialLog, ATurnThatCannotBeIsRefused) {
  const auto complaint = [](const Trial& turn) {
    return message_of<InputError>([&] { parse_trial_log(log_text(4) + to_log_line(turn), "t.jsonl"); });
  };
  EXPECT_TRUE(has_text(complaint(example_turn(1, 5, 0)),
                       "t.jsonl:5: final_round.after: 5 (accepted: 4, the trials before it)"));
  EXPECT_TRUE(has_text(complaint(example_turn(2, 4, 0)),
                       "t.jsonl:5: trial number 2 (accepted: one of the finalists)"));
  Trial other = example_turn(1, 4, 0);
  other.configuration = example_trial(2).configuration;
  EXPECT_TRUE(has_text(complaint(other), "(accepted: that of trial 1, which is measured again)"));
  const TemporaryDirectory folder;
  TrialLog log(folder / "trials.jsonl");
  EXPECT_THROW(log.append(example_turn(0, 4, 0)), std::logic_error);
  EXPECT_EQ(contents_of(folder / "trials.jsonl"), "");
}

TEST(TrialLog, ATurnOrRecordingThatStandsTwiceIsRefused) {
  const std::string turn = to_log_line(example_turn(1, 4, 0));
  const std::string before = log_text(4) + turn + to_log_line(example_turn(3, 4, 0)) +
                             to_log_line(example_turn(1, 4, 1)) + to_log_line(example_recording(1));
  // The same trial in another pass, of other finalists, and recorded beside being measured again.
  Trial other_round = example_turn(1, 4, 0);
  other_round.turn->finalists = {0, 1};
  EXPECT_EQ(parse_trial_log(before + to_log_line(other_round), "t.jsonl").measured_again.size(), 4U);
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { parse_trial_log(before + turn, "t.jsonl"); }),
               "t.jsonl:9: the turn of trial 1 in pass 0 of the final round after 4 trials is doubled"));
  EXPECT_TRUE(has_text(
      message_of<InputError>([&] { parse_trial_log(before + to_log_line(example_recording(1)), "t.jsonl"); }),
      "t.jsonl:9: the recording of trial 1 is doubled (accepted: one of each trial)"));

  const TemporaryDirectory folder;
  const std::string file = folder / "trials.jsonl";
  std::ofstream(file, std::ios::binary) << before;
  TrialLog log(file);
  EXPECT_THROW(log.append(example_turn(1, 4, 0)), std::logic_error);
  EXPECT_THROW(log.append(example_recording(1)), std::logic_error);
  EXPECT_EQ(contents_of(file), before);
}

TEST(TrialLog, HoldsWhatWasAppended) {
  const TemporaryDirectory folder;
  const std::string file = folder / "trials.jsonl";
  std::vector<std::string> expected;
  {
    TrialLog log(file);
    for (std::int64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(text_of(log.append(example_trial(i))), text_of(example_trial(i)));
      expected.push_back(text_of(example_trial(i)));
      EXPECT_EQ(texts_of(read_trial_log(file).trials), expected) << "on the disk before append() returns";
    }
  }
  TrialLog again(file);
  EXPECT_EQ(texts_of(again.trials()), expected);
  again.append(example_trial(5));
  EXPECT_EQ(read_trial_log(file).trials.size(), 6U);
}

TEST(TrialLog, LinesAreJsonWithAChecksumThatZlibWouldCompute) {
  const std::string line = to_log_line(example_trial(2));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const nlohmann::json object = nlohmann::json::parse(line);
  EXPECT_EQ(object["trial"], 2);
  const std::string body = line.substr(0, line.find(",\"checksum\""));
  EXPECT_EQ(std::stoul(object["checksum"].get<std::string>(), nullptr, 16), crc32(body));
}

TEST(TrialLog, BytesThatAreNotUtf8AreKeptReadable) {
  Trial trial = example_trial(0);
  trial.reason = "last words: \xff\xfe\x01";
  const auto contents = parse_trial_log(to_log_line(trial), "log");
  ASSERT_EQ(contents.trials.size(), 1U);
  EXPECT_TRUE(has_text(contents.trials[0].reason, "last words: "));
}

TEST(TrialLog, WhereverItIsCutOffTheWholeTrialsBeforeSurvive) {
  const std::string text = log_text(3);
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const auto contents = parse_trial_log(std::string_view(text).substr(0, length), "log");
    std::size_t whole = 0;
    std::size_t end = 0;
    for (std::int64_t i = 0; i < 3; ++i) {
      const std::size_t line = to_log_line(example_trial(i)).size();
      if (length + 1 < end + line) break;  // without its line end a line is whole all the same
      end += line;
      ++whole;
    }
    ASSERT_EQ(contents.trials.size(), whole) << length;
    ASSERT_EQ(contents.torn.empty(), length <= end) << length;
    ASSERT_EQ(contents.intact_bytes, std::min(end, length)) << length;
  }
}

TEST(TrialLog, TornEndIsCutOffLoudlyAndTheRunGoesOn) {
  const std::string text = log_text(3);
  for (const std::size_t missing : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{40}}) {
    const TemporaryDirectory folder;
    const std::string file = folder / "trials.jsonl";
    std::ofstream(file, std::ios::binary) << text.substr(0, text.size() - missing);
    TrialLog log(file);
    EXPECT_EQ(log.trials().size(), missing >= 2 ? 2U : 3U);
    EXPECT_EQ(!log.torn().empty(), missing >= 2);
    if (missing >= 2) {
      EXPECT_TRUE(has_text(log.torn(), file + ":3: the last line is torn"));
    }
    for (auto next = static_cast<std::int64_t>(log.trials().size()); next < 5; ++next)
      log.append(example_trial(next));
    EXPECT_EQ(contents_of(file), log_text(5));
  }
}

TEST(TrialLog, ZerosThatAPowerCutLeftAreATornEnd) {
  std::string text = log_text(2) + std::string(100, '\0');
  EXPECT_EQ(parse_trial_log(text, "log").trials.size(), 2U);
  text += "\n";
  EXPECT_EQ(parse_trial_log(text, "log").trials.size(), 2U);
}

TEST(TrialLog, EveryChangedByteBeforeTheLastLineIsAnErrorThatNamesTheLine) {
  const std::string text = log_text(3);
  const std::size_t first_line = to_log_line(example_trial(0)).size();
  const std::size_t last_line = text.size() - to_log_line(example_trial(2)).size();
  for (std::size_t position = 0; position < last_line; ++position) {
    std::string damaged = text;
    damaged[position] ^= 0x04;
    const std::string message = message_of<InputError>([&] { parse_trial_log(damaged, "trials.jsonl"); });
    ASSERT_TRUE(has_text(message, position < first_line ? "trials.jsonl:1: " : "trials.jsonl:2: "))
        << position;
  }
}

TEST(TrialLog, AWholeLineThatIsWrongIsNeverDropped) {
  EXPECT_TRUE(has_text(message_of<InputError>([&] { parse_trial_log(to_log_line(example_trial(1)), "log"); }),
                       "log:1: trial number 1 (accepted: 0"));
  const std::string doubled = log_text(2) + to_log_line(example_trial(1));
  EXPECT_TRUE(has_text(message_of<InputError>([&] { parse_trial_log(doubled, "log"); }),
                       "log:3: trial number 1 (accepted: 2"));
  EXPECT_TRUE(has_text(message_of<InputError>([&] { parse_trial_log("\n" + log_text(1), "log"); }),
                       "log:1: the line is damaged"));
}

TEST(TrialLog, UnreadableFilesAreErrors) {
  const TemporaryDirectory folder;
  EXPECT_TRUE(has_text(message_of<InputError>([&] { read_trial_log(folder / "none"); }),
                       "none: cannot be read: No such file"));
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { read_trial_log(folder.path().string()); }), "Is a directory"));
  EXPECT_THROW(TrialLog(folder / "no/such/folder/trials.jsonl"), std::runtime_error);
}

TEST(TrialLog, RefusesToCountWrong) {
  const TemporaryDirectory folder;
  TrialLog log(folder / "trials.jsonl");
  EXPECT_THROW(log.append(example_trial(1)), std::logic_error);
}

// Appends until the disk is full; then makes room and goes on.
void fill_and_go_on(const std::string& file, const std::function<void()>& make_room) {
  std::string before;
  {
    TrialLog log(file);
    std::string message;
    for (std::int64_t i = 0; i < 1000 && message.empty(); ++i) {
      before = contents_of(file);
      try {
        log.append(example_trial(i));
      } catch (const std::runtime_error& error) {
        message = error.what();
      }
    }
    EXPECT_TRUE(has_text(message, file + ": trial "));
    EXPECT_TRUE(has_text(message, "could not be written: "));
    EXPECT_GT(log.trials().size(), 1U);
    EXPECT_EQ(contents_of(file), before) << "the partial line is gone again";
    EXPECT_EQ(read_trial_log(file).trials.size(), log.trials().size());
  }
  make_room();
  TrialLog log(file);
  EXPECT_TRUE(log.torn().empty());
  const auto next = static_cast<std::int64_t>(log.trials().size());
  log.append(example_trial(next));
  EXPECT_EQ(contents_of(file), log_text(next + 1));
}

TEST(TrialLog, AFileSizeLimitLeavesItIntact) {
  const TemporaryDirectory folder;
  rlimit previous{};
  ::getrlimit(RLIMIT_FSIZE, &previous);
  const auto ignore_before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = previous;
  small.rlim_cur = 2000;  // not at a line's end
  ::setrlimit(RLIMIT_FSIZE, &small);
  fill_and_go_on(folder / "trials.jsonl", [&] { ::setrlimit(RLIMIT_FSIZE, &previous); });
  ::setrlimit(RLIMIT_FSIZE, &previous);
  ::signal(SIGXFSZ, ignore_before);
}

TEST(TrialLog, AFullDiskLeavesItIntact) {
  // In a mount name space of its own, so that nothing stays behind whatever happens here.
  const TemporaryDirectory folder;
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "a file system of 64 KiB cannot be mounted here (needs root)";
  {
    std::ofstream(folder / "filler", std::ios::binary) << std::string(49152, 'x');
    fill_and_go_on(folder / "trials.jsonl", [&] { fs::remove(folder / "filler"); });
  }
  ::umount2(folder.path().c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace moetune
