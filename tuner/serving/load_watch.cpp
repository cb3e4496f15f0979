#include "tuner/serving/load_watch.h"

#include <algorithm>
#include <chrono>

#include "tuner/serving/http_client.h"

namespace moetune {
namespace {

constexpr std::chrono::seconds between_looks(1);  // a look costs the server next to nothing

void raise(std::optional<double>& most, const std::optional<double>& now) {
  if (now) most = std::max(most.value_or(*now), *now);
}

}  // namespace

LoadWatch::LoadWatch(const ServerUrl& url, const std::string& token)
    : url_(url), token_(token), thread_([this] { look(); }) {}

LoadWatch::~LoadWatch() { stop(); }

void LoadWatch::look() {
  HttpClient client(url_, token_, {.connect_seconds = 5.0, .silence_seconds = 5.0});
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    lock.unlock();
    const HttpReply reply = client.get("/metrics");
    const ServerLoad load = reply.ok() ? server_load(reply.body) : ServerLoad{};
    lock.lock();
    if (!reply.ok()) return;
    ++seen_.looks;
    raise(seen_.most.running, load.running);
    raise(seen_.most.waiting, load.waiting);
    raise(seen_.most.cache_use, load.cache_use);
    if (load.preemptions) {
      if (!first_preemptions_) first_preemptions_ = load.preemptions;
      seen_.most.preemptions = *load.preemptions - *first_preemptions_;
    }
    stopping_.wait_for(lock, between_looks, [this] { return stopped_; });
  }
}

LoadWatch::Seen LoadWatch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
  return seen_;
}

}  // namespace moetune
