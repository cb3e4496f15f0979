// Copies experts into their slots while the layers go on, one batch at a time. Out of pinned memory a GPU
// copies by itself, on a stream beside the ops; otherwise a thread reads, into slots that the host can write
// or by way of it. Start at start(); nothing may read or reuse a slot of the batch before wait().
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/expert_store.h"
#include "kernels/device.h"
#include "kernels/side_branch.h"

namespace moetune {

class BackgroundLoader {
 public:
  // device: that of the slots. Both have to live as long.
  BackgroundLoader(Device& device, const ExpertStore& store);
  ~BackgroundLoader();  // after the running batch
  BackgroundLoader(const BackgroundLoader&) = delete;
  BackgroundLoader& operator=(const BackgroundLoader&) = delete;

  // Behind everything that is enqueued on the device. The batch before must have been waited for.
  void start(std::vector<ExpertStore::Wanted> wanted);
  // When it returns everything is there for what is enqueued on the device from then on; of a GPU the host
  // waits only where a thread reads. Throws what reading threw; then none of the batch counts as loaded, and
  // nothing writes to its slots any more.
  void wait();

 private:
  void serve();
  void load(const ExpertStore::Wanted& wanted);

  const ExpertStore* store_;
  SideBranch side_;
  std::vector<std::byte> staging_;  // of one expert, where the host cannot write slots; empty where it can
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ExpertStore::Wanted> wanted_;
  bool is_busy_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // none where nobody has to read; last: it uses all of the above
};

}  // namespace moetune
