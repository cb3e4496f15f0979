#include "engine/pinned_pool.h"

#include <unistd.h>

#include <mutex>
#include <utility>

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

std::int64_t pinned_limit(const ModelSpec& spec) {
  if (spec.is_synthetic) return std::int64_t{16} << 30;
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE)) / 4 * 3;
}

}  // namespace moetune
