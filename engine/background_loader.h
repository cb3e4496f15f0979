// Copies experts into their slots while the layers go on: one thread, one batch at a time. Start at start();
// nothing may read or reuse a slot of the batch before wait().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/expert_store.h"

namespace moetune {

class BackgroundLoader {
 public:
  // Of experts in memory that the host can write. The store has to live as long.
  explicit BackgroundLoader(const ExpertStore& store);
  ~BackgroundLoader();  // after the running batch
  BackgroundLoader(const BackgroundLoader&) = delete;
  BackgroundLoader& operator=(const BackgroundLoader&) = delete;

  // The batch before must have been waited for.
  void start(std::vector<ExpertStore::Wanted> wanted);
  // Returns when everything is there. Throws what ExpertStore::load() threw; then none of the batch counts as
  // loaded.
  void wait();

 private:
  void serve();

  const ExpertStore* store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ExpertStore::Wanted> wanted_;
  bool is_busy_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace moetune
