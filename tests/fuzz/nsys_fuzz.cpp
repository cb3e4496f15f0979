// Any bytes as an export of Nsight Systems: either InputError, or accounts whose parts add up. SQLite opens
// files by name, so the bytes stand in a file that lives in memory only.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>

#include "engine/facts/error.h"
#include "engine/sync_tax/nsys_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("input", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    const auto trace = moetune::read_nsys_export("/proc/self/fd/" + std::to_string(file));
    for (const auto& [device, account, idle_ns] : moetune::imported_accounts(trace))
      if (std::accumulate(account.exposed_ns.begin(), account.exposed_ns.end(), std::int64_t{0}) !=
          account.length_ns)
        std::abort();
  } catch (const moetune::InputError&) {
  }
  close(file);
  return 0;
}
