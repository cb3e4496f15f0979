// Watches a server's /metrics while it is measured. Start at LoadWatch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "tuner/serving/metrics_text.h"
#include "tuner/serving/server_url.h"

namespace moetune {

// The most that was seen, and how many preemptions there were in between.
class LoadWatch {
 public:
  LoadWatch(const ServerUrl& url, const std::string& token);  // looks once a second until stop()
  ~LoadWatch();
  LoadWatch(const LoadWatch&) = delete;
  LoadWatch& operator=(const LoadWatch&) = delete;

  struct Seen {
    std::int64_t looks = 0;  // answers; 0: the server has no /metrics
    ServerLoad most;         // preemptions: since the watch began
  };
  Seen stop();

 private:
  void look();

  ServerUrl url_;
  std::string token_;
  Seen seen_;
  std::optional<double> first_preemptions_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace moetune
