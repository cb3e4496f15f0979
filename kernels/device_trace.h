// What a GPU did while something ran: a record of every kernel, copy and fill, with the label of the op it
// belongs to, and of every call of the host. Recorded by CUPTI, whose library is opened at run time. Start at
// DeviceTrace.
//
// The label of a kernel is the one that is set while it is launched; of a kernel in a graph, while the graph
// is captured. So graphs have to be captured while a DeviceTrace lives.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/trace_labels.h"

namespace moetune {

struct DeviceRecord {
  enum class Kind : std::uint8_t { kernel, copy_to_device, copy_to_host, copy_on_device, fill, host_call };

  Kind kind = Kind::kernel;
  std::int64_t begin_ns = 0;  // by DeviceTrace::now_ns()
  std::int64_t end_ns = 0;
  std::uint32_t label = 0;   // 0: nobody set one; of host calls always
  std::uint32_t stream = 0;  // of a host call: its thread
  std::int64_t bytes = 0;    // of copies and fills
  const char* name = "";  // of a kernel (mangled) or a call of the CUDA runtime; lives as long as the process
};

class DeviceTrace {
 public:
  // Why nothing can be recorded here, with what would help; empty: it can. Makes no context.
  static std::string why_not();

  // One at a time. From here on what is captured and launched is labelled. Opening CUPTI makes launches of
  // the process slower for good, recording or not: times that are to count are taken before the first
  // DeviceTrace. Throws std::runtime_error where why_not() says something, and where another tool records
  // this process already.
  DeviceTrace();
  ~DeviceTrace();
  DeviceTrace(const DeviceTrace&) = delete;
  DeviceTrace& operator=(const DeviceTrace&) = delete;

  TraceLabels& labels();

  void start();
  // Waits for the device and stops. In no particular order. Throws std::runtime_error when records were lost.
  std::vector<DeviceRecord> finish();

  // The clock of all records. Only while a DeviceTrace lives.
  static std::int64_t now_ns();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace moetune
