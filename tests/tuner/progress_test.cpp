#include "tuner/progress.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace moetune {
namespace {

// What a Progress wrote.
class Written {
 public:
  Written() : stream_(std::tmpfile()) {}
  ~Written() { std::fclose(stream_); }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  std::FILE* stream() const { return stream_; }
  std::string text() const {
    std::string bytes(static_cast<std::size_t>(std::ftell(stream_)), '\0');
    std::rewind(stream_);
    EXPECT_EQ(std::fread(bytes.data(), 1, bytes.size(), stream_), bytes.size());
    std::fseek(stream_, 0, SEEK_END);
    return bytes;
  }

 private:
  std::FILE* stream_;
};

TuneStatus example_status() {
  TuneStatus status;
  status.trial = 12;
  status.trials_done = 12;
  status.max_trials = 240;
  status.best = "3.21 tpot_ms (trial 7)";
  status.seconds_left = 250.0;
  status.doing = "measuring 12/40";
  return status;
}

TEST(Progress, SaysWhereTheSearchStands) {
  EXPECT_EQ(progress_line(example_status(), 200),
            "12 of 240 trials done | best 3.21 tpot_ms (trial 7) | 4 min left | measuring 12/40");
  EXPECT_EQ(progress_line(TuneStatus{}, 200), "0 trials done | no result yet");
  TuneStatus in_final = example_status();
  in_final.final_done = 5;
  in_final.final_most = 36;
  EXPECT_EQ(progress_line(in_final, 200),
            "final round, 5 of at most 36 turns done | best 3.21 tpot_ms (trial 7) | 4 min left | "
            "measuring 12/40");
  TuneStatus hostile = example_status();
  hostile.doing = "a\n\x1b[2J";
  EXPECT_EQ(progress_line(hostile, 200).find_first_of("\n\x1b"), std::string::npos);
  for (int columns = 0; columns < 100; ++columns)
    EXPECT_LE(progress_line(example_status(), columns).size(), std::max(columns, 1));
}

TEST(Progress, CutsNothingWhereThereIsNoTerminal) {
  const Written written;
  Progress progress(written.stream(), {.interactive = false, .colour = false, .columns = 20}, false);
  progress.show(example_status());
  EXPECT_EQ(written.text(),
            "12 of 240 trials done | best 3.21 tpot_ms (trial 7) | 4 min left | measuring 12/40\n");
}

TEST(Progress, DurationsReadWell) {
  EXPECT_EQ(duration_text(-3.0), "0 s");
  EXPECT_EQ(duration_text(45.4), "45 s");
  EXPECT_EQ(duration_text(250.0), "4 min");
  EXPECT_EQ(duration_text(7200.0), "2 h");
  EXPECT_EQ(duration_text(8400.0), "2 h 20 min");
  EXPECT_FALSE(duration_text(1e300).empty());
}

TEST(Progress, RedrawsOneLineOnATerminal) {
  const Written written;
  {
    Progress progress(written.stream(), {.interactive = true, .colour = false, .columns = 40}, false);
    progress.show(example_status());
    progress.show(example_status());  // nothing new
    progress.message("worker: note");
  }
  const std::string line = progress_line(example_status(), 39);
  EXPECT_EQ(written.text(), "\r\033[K" + line + "\r\033[Kworker: note\n");
}

TEST(Progress, AFileGetsPlainLinesNowAndThen) {
  const Written written;
  Progress progress(written.stream(), {}, false);
  TuneStatus status = example_status();
  for (status.trials_done = 0; status.trials_done < 100; ++status.trials_done) progress.show(status);
  progress.message("done");
  const std::string text = written.text();
  EXPECT_EQ(text.find_first_of("\r\033"), std::string::npos);
  EXPECT_TRUE(text.starts_with("0 of 240 trials done"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 3) << "not one for every trial";
  EXPECT_TRUE(text.ends_with("\ndone\n"));
}

TEST(Progress, QuietKeepsOnlyMessages) {
  const Written written;
  Progress progress(written.stream(), {.interactive = true, .colour = false, .columns = 80}, true);
  progress.show(example_status());
  progress.message("a warning");
  EXPECT_EQ(written.text(), "a warning\n");
}

TEST(Terminal, AFileIsNone) {
  const Written written;
  const Terminal terminal = terminal_of(::fileno(written.stream()));
  EXPECT_FALSE(terminal.interactive);
  EXPECT_FALSE(terminal.colour);
  EXPECT_EQ(terminal.columns, 80);
}

TEST(Terminal, HonoursItsTypeAndNoColor) {
  // A terminal of our own: what a test inherits may be one or not.
  const int controller = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(controller, 0);
  ASSERT_EQ(::grantpt(controller), 0);
  ASSERT_EQ(::unlockpt(controller), 0);
  const int terminal = ::open(::ptsname(controller), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  const winsize size{.ws_row = 24, .ws_col = 61, .ws_xpixel = 0, .ws_ypixel = 0};
  ::ioctl(controller, TIOCSWINSZ, &size);

  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  EXPECT_TRUE(terminal_of(terminal).interactive);
  EXPECT_TRUE(terminal_of(terminal).colour);
  EXPECT_EQ(terminal_of(terminal).columns, 61);
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(terminal_of(terminal).interactive);
  EXPECT_FALSE(terminal_of(terminal).colour);
  ::setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(terminal_of(terminal).colour) << "empty counts as not set";
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(terminal_of(terminal).interactive);
  ::close(terminal);
  ::close(controller);
}

}  // namespace
}  // namespace moetune
