// Which NVTX range of ours something in another profiler's trace was launched in. A kernel of a graph belongs
// to the range that was open when its node was captured: replays come without any. Start at of().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/sync_tax/kernel_names.h"

namespace moetune {

class TraceRanges {
 public:
  // Ranges of others (range_names.h) change nothing. On one thread they nest. To be added before anything is
  // asked.
  void range(std::int64_t thread, std::string_view text, std::int64_t begin_ns, std::int64_t end_ns);
  // A node was made, by a thread at a time; original: the one it is a copy of, 0: of none.
  void node(std::int64_t process, std::int64_t node, std::int64_t original, std::int64_t thread,
            std::int64_t at_ns);
  // A call of the CUDA runtime began.
  void call(std::int64_t process, std::int64_t correlation, std::int64_t thread, std::int64_t at_ns);

  bool empty() const { return threads_.empty(); }
  // Of a kernel or copy; node: 0 outside of graphs. Empty: nobody said.
  std::optional<KernelClass> of(std::int64_t process, std::int64_t node, std::int64_t correlation);

 private:
  struct Range {
    std::int64_t begin_ns;
    std::int64_t end_ns;
    KernelClass is;
    std::ptrdiff_t outer;  // of the same thread; -1: none
  };
  struct Thread {
    std::vector<Range> ranges;
    bool is_nested = false;  // sorted, and outer is set
  };
  struct Place {
    std::int64_t thread;
    std::int64_t at_ns;
    std::int64_t original = 0;
  };
  using Key = std::pair<std::int64_t, std::int64_t>;  // process and number

  std::optional<KernelClass> at(const Place& place);

  std::map<std::int64_t, Thread> threads_;
  std::map<Key, Place> nodes_;
  std::map<Key, Place> calls_;
};

}  // namespace moetune
