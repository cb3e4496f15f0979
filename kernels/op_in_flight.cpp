#include "kernels/op_in_flight.h"

#include <array>
#include <atomic>

namespace moetune {
namespace {

constexpr std::size_t most_threads = 64;
using Place = std::atomic<const char*>;
static_assert(Place::is_always_lock_free, "a signal handler reads it");

std::array<Place, most_threads> places;
std::array<std::atomic<bool>, most_threads> taken;

// A thread's own place, given back when it ends; nullptr where all are taken.
class Seat {
 public:
  Seat() {
    for (std::size_t i = 0; i < most_threads; ++i) {
      if (taken[i].exchange(true)) continue;
      place_ = &places[i];
      index_ = i;
      return;
    }
  }
  ~Seat() {
    if (place_ != nullptr) taken[index_].store(false);
  }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  Place* place() const { return place_; }

 private:
  Place* place_ = nullptr;
  std::size_t index_ = 0;
};

Place* own_place() {
  thread_local const Seat seat;
  return seat.place();
}

}  // namespace

OpInFlight::OpInFlight(const char* name) : outer_(nullptr) {
  if (Place* place = own_place()) outer_ = place->exchange(name, std::memory_order_relaxed);
}

OpInFlight::~OpInFlight() {
  if (Place* place = own_place()) place->store(outer_, std::memory_order_relaxed);
}

std::size_t ops_in_flight(std::span<const char*> names) {
  std::size_t count = 0;
  for (const Place& place : places)
    if (const char* name = place.load(std::memory_order_relaxed); name != nullptr && count < names.size())
      names[count++] = name;
  return count;
}

}  // namespace moetune
