#include "engine/sync_tax/thread_times.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

namespace moetune {
namespace {

// The first of a process has its number: the folder above says which that is.
std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc{} && rest == end ? std::optional(number) : std::nullopt;
}

void sort(std::vector<ThreadTime>& threads) {
  std::ranges::stable_sort(threads, std::greater{}, &ThreadTime::running_ns);
}

}  // namespace

std::vector<ThreadTime> thread_times(const std::string& tasks) {
  std::vector<ThreadTime> threads;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(tasks, problem)) {
    const auto id = number_of(entry.path().filename().string());
    ThreadTime thread;
    if (!id || !(std::ifstream(entry.path() / "schedstat") >> thread.running_ns >> thread.waiting_ns))
      continue;
    thread.id = *id;
    std::getline(std::ifstream(entry.path() / "comm"), thread.name);
    threads.push_back(std::move(thread));
  }
  // A process's first thread has its number, the smallest of all but where numbers have wrapped around.
  std::error_code none;
  const auto self = std::filesystem::read_symlink(std::filesystem::path(tasks).parent_path(), none);
  const auto main_id = none ? std::nullopt : number_of(self.filename().string());
  for (ThreadTime& thread : threads)
    if (main_id == thread.id) thread.name = "main";
  sort(threads);
  return threads;
}

std::vector<ThreadTime> between(std::span<const ThreadTime> before, std::span<const ThreadTime> after) {
  std::vector<ThreadTime> spent;
  for (ThreadTime thread : after) {
    const auto was = std::ranges::find(before, thread.id, &ThreadTime::id);
    // Fewer than before: another thread, that got the number of one that ended.
    if (was != before.end() && was->running_ns <= thread.running_ns) {
      thread.running_ns -= was->running_ns;
      thread.waiting_ns -= std::min(thread.waiting_ns, was->waiting_ns);
    }
    if (thread.running_ns > 0 || thread.waiting_ns > 0) spent.push_back(std::move(thread));
  }
  sort(spent);
  return spent;
}

void add(std::vector<ThreadTime>& sum, std::span<const ThreadTime> more) {
  for (const ThreadTime& thread : more) {
    const auto known = std::ranges::find(sum, thread.id, &ThreadTime::id);
    if (known == sum.end()) {
      sum.push_back(thread);
      continue;
    }
    known->running_ns += thread.running_ns;
    known->waiting_ns += thread.waiting_ns;
  }
  sort(sum);
}

}  // namespace moetune
