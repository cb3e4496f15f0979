// Any text as a trace of torch.profiler: either InputError, or accounts whose parts add up.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "engine/facts/error.h"
#include "engine/sync_tax/torch_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto trace =
        moetune::parse_torch_trace(std::string_view(reinterpret_cast<const char*>(data), size), "input");
    for (const auto& [device, account, idle_ns] : moetune::imported_accounts(trace))
      if (std::accumulate(account.exposed_ns.begin(), account.exposed_ns.end(), std::int64_t{0}) !=
          account.length_ns)
        std::abort();
  } catch (const moetune::InputError&) {
  }
  return 0;
}
