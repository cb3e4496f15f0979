// What a started program gets of ours, and how its end is told.
#include "tuner/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tuner/descriptor.h"

namespace moetune {
namespace {

std::vector<std::string> shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

int status_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

// What a script printed to descriptor 5, which is the other end of a pipe.
std::string printed(SpawnRequest request) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor input(ends[0]);
  Descriptor output(ends[1]);
  request.descriptors = {{output.number(), 5}};
  const pid_t pid = spawn(request);
  output.close();
  std::string text;
  std::array<char, 256> block{};
  for (ssize_t count = 0; (count = ::read(input.number(), block.data(), block.size())) > 0;)
    text.append(block.data(), static_cast<std::size_t>(count));
  EXPECT_EQ(how_it_ended(status_of(pid)), "ended with exit status 0");
  return text;
}

TEST(Spawn, GivesTheDescriptorsThatAreAskedForAndAnEmptyStdin) {
  EXPECT_EQ(printed({.command = shell("cat >&5; echo end >&5")}), "end\n");
}

TEST(Spawn, AGroupOfItsOwnIsTheChilds) {
  // ps -o pgid would need a package: the fifth field of stat is the group.
  const std::string script =
      "read pid name state parent group rest < /proc/$$/stat; [ $group = $$ ] && echo own >&5; true";
  EXPECT_EQ(printed({.command = shell(script), .own_group = true}), "own\n");
  EXPECT_EQ(printed({.command = shell(script)}), "");
}

TEST(Spawn, SignalsThatWeIgnoreWorkAgainWhereThatIsAskedFor) {
  struct sigaction before{};
  struct sigaction ignored{};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGHUP, &ignored, &before);
  const std::array signals = {SIGHUP};
  const std::string script = "kill -HUP $$; true";
  const int kept = status_of(spawn({.command = shell(script)}));
  const int fresh = status_of(spawn({.command = shell(script), .default_signals = signals}));
  ::sigaction(SIGHUP, &before, nullptr);
  EXPECT_EQ(how_it_ended(kept), "ended with exit status 0");
  EXPECT_EQ(how_it_ended(fresh), "was killed by SIGHUP");
}

TEST(Spawn, ThisProgramAgainIsCalledByItsName) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor input(ends[0]);
  Descriptor output(ends[1]);
  ::fcntl(input.number(), F_SETPIPE_SZ, 4096);  // the list of tests is longer: it waits to be read
  const pid_t pid = spawn({.command = {"/proc/self/exe", "--gtest_list_tests"},
                           .descriptors = {{output.number(), STDOUT_FILENO}}});
  output.close();
  char first = 0;
  ASSERT_EQ(::read(input.number(), &first, 1), 1);
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::string name;
  std::getline(file, name, '\0');
  EXPECT_EQ(name, ::program_invocation_short_name);
  ::kill(pid, SIGKILL);
  EXPECT_EQ(how_it_ended(status_of(pid)), "was killed by SIGKILL");
}

TEST(Spawn, AProgramThatIsNotThereIsAnErrorThatNamesIt) {
  EXPECT_TRUE(has_text(
      message_of<std::runtime_error>([] { spawn({.command = {"/no/such/program"}, .role = "the helper "}); }),
      "the helper /no/such/program cannot be started: No such file"));
}

TEST(HowItEnded, NamesTheStatusOrTheSignal) {
  EXPECT_EQ(how_it_ended(status_of(spawn({.command = shell("exit 3")}))), "ended with exit status 3");
  EXPECT_EQ(how_it_ended(status_of(spawn({.command = shell("kill -SEGV $$")}))), "was killed by SIGSEGV");
}

}  // namespace
}  // namespace moetune
