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

  // One at a time. From here on what is captured is labelled. It makes every kernel of a graph slower,
  // recording or not, so times that are to count have to be taken while none lives. Throws std::runtime_error
  // where why_not() says something, and where another tool records this process already.
  DeviceTrace();
  ~DeviceTrace();  // waits for the device, and leaves it as it was
  DeviceTrace(const DeviceTrace&) = delete;
  DeviceTrace& operator=(const DeviceTrace&) = delete;

  TraceLabels& labels();

  // Begins recording. calls: what is launched outside of graphs is labelled too. Without, nobody is called
  // back any more, which costs least: a graph that is captured from then on has no labels.
  enum class Calls : std::uint8_t { labelled, not_labelled };
  void start(Calls calls);
  // Waits for the device and stops. In no particular order. Throws std::runtime_error when records were lost.
  std::vector<DeviceRecord> finish();

  // The clock of all records. Only while a DeviceTrace lives.
  static std::int64_t now_ns();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// What recording adds to the time of one kernel of a graph: from a chain of short ones with and without it.
// Made while no DeviceTrace lives.
class RecordingProbe {
 public:
  RecordingProbe();
  ~RecordingProbe();
  RecordingProbe(const RecordingProbe&) = delete;
  RecordingProbe& operator=(const RecordingProbe&) = delete;

  // Nanoseconds, at least 0. Takes some 20 ms.
  double ns_per_kernel(DeviceTrace& trace, DeviceTrace::Calls calls);

  struct Chain;

 private:
  std::unique_ptr<Chain> chain_;
  double plain_ns_;
};

}  // namespace moetune
