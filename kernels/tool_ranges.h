// Ranges that a profiler shows beside kernels (NVTX): for people with Nsight Systems or Nsight Compute. Start
// at ToolRange. A graph shows those that were open while it was captured, not while it runs.
#pragma once

namespace moetune {

// Does a tool that takes ranges run this process? Decided once, when it is first asked: a tool that attaches
// later sees none. Without one a range costs the look at this flag.
bool tool_watches();

// From here to the end of the block, on this thread, in the domain "moetune".
class ToolRange {
 public:
  explicit ToolRange(const char* name) : is_open_(tool_watches()) {
    if (is_open_) open(name);
  }
  // "NAME NUMBER", as in "moetune: layer 3".
  ToolRange(const char* name, int number) : is_open_(tool_watches()) {
    if (is_open_) open(name, number);
  }
  ~ToolRange() {
    if (is_open_) close();
  }
  ToolRange(const ToolRange&) = delete;
  ToolRange& operator=(const ToolRange&) = delete;

  // What follows has another name.
  void go_on_as(const char* name) {
    if (!is_open_) return;
    close();
    open(name);
  }

 private:
  static void open(const char* name);
  static void open(const char* name, int number);
  static void close();

  bool is_open_;
};

}  // namespace moetune
