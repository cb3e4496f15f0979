// Runs the same work on every tensor-parallel rank at once: rank 0 on the caller's thread, each other rank on
// a thread of its own for as long as the engine lives. Not parallel_for: ranks wait for each other inside a
// step, so each needs a thread that is surely running, and each has a pool of its own for the work inside an
// op.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace moetune {

class RankThreads {
 public:
  explicit RankThreads(int ranks);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // Calls work(rank) on every rank and returns when all have returned. When one throws, on_failure() is
  // called at once (it must wake ranks that wait for the one that failed), and the exception that came first
  // is rethrown.
  void run(const std::function<void(int rank)>& work, const std::function<void()>& on_failure);

 private:
  void serve(int rank);
  void call(int rank);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(int)>* work_ = nullptr;  // guarded by mutex_, as all below
  const std::function<void()>* on_failure_ = nullptr;
  std::uint64_t rounds_ = 0;
  int working_ = 0;
  int first_core_ = -1;  // that rank 0 keeps; -1: none
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace moetune
