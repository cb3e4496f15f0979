#include "tuner/interruption.h"

#include <poll.h>
#include <signal.h>

#include <stdexcept>

#include <gtest/gtest.h>

namespace moetune {
namespace {

bool is_readable(int descriptor) {
  pollfd wait{descriptor, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

auto handler_of(int signal) {
  struct sigaction action{};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler;
}

TEST(Interruption, TurnsSignalsIntoSomethingToWaitFor) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Interruption interruption;
    EXPECT_FALSE(interruption.requested());
    EXPECT_FALSE(is_readable(interruption.descriptor()));
    ::raise(signal);
    EXPECT_TRUE(interruption.requested());
    EXPECT_TRUE(is_readable(interruption.descriptor()));
  }
}

TEST(Interruption, SurvivesManySignals) {
  const Interruption interruption;
  for (int i = 0; i < 100000; ++i) ::raise(SIGINT);  // more than a pipe holds
  EXPECT_TRUE(interruption.requested());
}

TEST(Interruption, PutsEverythingBack) {
  const auto interrupt = handler_of(SIGINT);
  const auto pipe = handler_of(SIGPIPE);
  {
    const Interruption interruption;
    EXPECT_NE(handler_of(SIGINT), interrupt);
    EXPECT_EQ(handler_of(SIGPIPE), SIG_IGN);
    EXPECT_EQ(handler_of(SIGXFSZ), SIG_IGN);
    EXPECT_THROW(Interruption(), std::logic_error);
  }
  EXPECT_EQ(handler_of(SIGINT), interrupt);
  EXPECT_EQ(handler_of(SIGPIPE), pipe);
}

TEST(Interruption, ARunUnderNohupStaysUnderNohup) {
  const auto before = ::signal(SIGHUP, SIG_IGN);
  {
    const Interruption interruption;
    ::raise(SIGHUP);
    EXPECT_FALSE(interruption.requested());
  }
  EXPECT_EQ(handler_of(SIGHUP), SIG_IGN);
  ::signal(SIGHUP, before);
}

}  // namespace
}  // namespace moetune
