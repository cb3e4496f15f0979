#include "engine/pinned_pool.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "engine/probe.h"

namespace moetune {
namespace {

struct Kept {
  std::mutex mutex;
  SharedBuffer block;
};
// Never destroyed: at the end of the program the driver may be gone before it.
Kept& kept() {
  static auto* one = new Kept;
  return *one;
}

}  // namespace

SharedBuffer lease_pinned(Device& device, std::int64_t bytes) {
  if (shares_host_memory(device)) return SharedBuffer::unwritten(device, bytes);
  Kept& store = kept();
  const std::scoped_lock lock(store.mutex);
  if (store.block.bytes() < bytes || !store.block.is_sole_owner()) {
    store.block = {};  // first: both may not fit
    store.block = SharedBuffer::unwritten(device, bytes);
  }
  return store.block;
}

std::int64_t host_store_limit() {
  static const std::int64_t limit =
      usable_memory_bytes() / 4 * 3;  // it reads files, and is asked of every configuration
  return limit;
}

std::int64_t pinned_limit(const ModelSpec& spec) {
  constexpr std::int64_t kOfSynthetic = std::int64_t{16} << 30;
  return spec.is_synthetic ? std::min(kOfSynthetic, host_store_limit()) : host_store_limit();
}

}  // namespace moetune
