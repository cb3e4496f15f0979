// What a thread is at can be read from outside it.
#include "kernels/op_in_flight.h"

#include <algorithm>
#include <array>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/fill.h"
#include "kernels/run.h"

namespace moetune {

struct OpThatLooks {
  std::vector<std::string>* seen;
};
std::vector<std::string> in_flight() {
  std::array<const char*, 8> names{};
  const std::size_t count = ops_in_flight(names);
  return {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count)};
}
void run(Cpu&, const OpThatLooks& op) { *op.seen = in_flight(); }
void run(Cuda&, const OpThatLooks& op) { *op.seen = in_flight(); }  // the seam wants one for every device

namespace {

TEST(OpInFlight, IsKnownByItsTypeWhileTheSeamRunsIt) {
  static_assert(std::string_view(op_name<Fill>()) == "Fill");
  Device device{Cpu(1)};
  std::vector<std::string> seen;
  run(device, OpThatLooks{&seen});
  EXPECT_EQ(seen, std::vector<std::string>{"OpThatLooks"});
  EXPECT_EQ(in_flight(), std::vector<std::string>{}) << "it has ended";
}

TEST(OpInFlight, GivesTheOuterOneBack) {
  const OpInFlight outer("outer");
  {
    const OpInFlight inner("inner");
    EXPECT_EQ(in_flight(), std::vector<std::string>{"inner"});
  }
  EXPECT_EQ(in_flight(), std::vector<std::string>{"outer"});
}

TEST(OpInFlight, KnowsEachThreadsOwn) {
  std::barrier both_inside(3);
  std::barrier both_seen(3);
  const auto be_inside = [&](const char* name) {
    const OpInFlight op(name);
    both_inside.arrive_and_wait();
    both_seen.arrive_and_wait();
  };
  std::thread first(be_inside, "first");
  std::thread second(be_inside, "second");
  both_inside.arrive_and_wait();
  std::vector<std::string> seen = in_flight();
  both_seen.arrive_and_wait();
  first.join();
  second.join();
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(in_flight(), std::vector<std::string>{});
}

// Places are given back: more threads than there are places, one after the other.
TEST(OpInFlight, SeesThreadsThatCameLate) {
  for (int i = 0; i < 100; ++i) std::thread([] { const OpInFlight op("short"); }).join();
  std::vector<std::string> seen;
  std::thread([&] {
    const OpInFlight op("late");
    seen = in_flight();
  }).join();
  EXPECT_EQ(seen, std::vector<std::string>{"late"});
}

}  // namespace
}  // namespace moetune
