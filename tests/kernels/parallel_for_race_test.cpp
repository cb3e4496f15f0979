// Shows that ThreadSanitizer sees through parallel_for: a planted race must be reported. Without that, a
// clean run of the tsan build would say nothing. Only built with -fsanitize=thread.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MOETUNE_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MOETUNE_THREAD_SANITIZER 1
#endif

#ifdef MOETUNE_THREAD_SANITIZER

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "kernels/parallel_for.h"

namespace moetune {
namespace {

// Only run by the test below, in a process of its own.
TEST(ParallelForRace, DISABLED_Planted) {
  ParallelPool pool(2);
  // Many variables, since two accesses at the very same instant can pass the sanitizer unseen: each thread
  // looks at what the other left before that is there.
  std::array<int, 1024> shared{};
  std::atomic<int> inside{0};
  pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    // Both threads are in their pieces before either writes. Relaxed, so that this orders nothing between
    // them.
    inside.fetch_add(1, std::memory_order_relaxed);
    while (inside.load(std::memory_order_relaxed) < 2) {
    }
    for (int& one : shared) ++one;
  });
  EXPECT_GE(shared[0], 1);
}

TEST(ParallelForRace, APlantedRaceIsReported) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      "'" + program +
      "' --gtest_filter=ParallelForRace.DISABLED_Planted --gtest_also_run_disabled_tests "
      "--gtest_output= 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> chunk{};
  while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe))
    output.append(chunk.data(), count);
  const int status = pclose(pipe);
  ASSERT_TRUE(WIFEXITED(status)) << output;
  EXPECT_NE(WEXITSTATUS(status), 0) << output;
  EXPECT_NE(output.find("WARNING: ThreadSanitizer: data race"), std::string::npos) << output;
}

}  // namespace
}  // namespace moetune

#endif  // MOETUNE_THREAD_SANITIZER
