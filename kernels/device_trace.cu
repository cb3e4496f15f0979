// Start at DeviceTrace::start(). Nodes and calls are labelled by callbacks on the thread that makes them;
// records come back in buffers, on a thread of CUPTI's.
#include "kernels/device_trace.h"

#ifndef MOETUNE_HAS_CUPTI_HEADER
#define MOETUNE_HAS_CUPTI_HEADER 0
#endif

#if MOETUNE_HAS_CUPTI_HEADER

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "kernels/cuda/check.cuh"
#include "kernels/cuda/cupti_library.cuh"
#include "kernels/trace_labels.h"

namespace moetune {
namespace {

using cuda::CuptiLibrary;

// What an op enqueues is launched by the runtime; the driver's own calls below it would only double the
// records.
constexpr std::array kKinds = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                               CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_RUNTIME};
constexpr std::size_t kBufferBytes = std::size_t{8} << 20;

struct RawRecord {
  DeviceRecord record;
  std::uint64_t node;
  std::uint32_t correlation;
};

const CuptiLibrary& cupti() { return CuptiLibrary::get(); }

// Names outlive the buffers they came in.
const char* kept(const char* name) {
  static std::set<std::string> names;
  return name == nullptr ? "" : names.emplace(name).first->c_str();
}

DeviceRecord::Kind copy_kind(std::uint8_t kind) {
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD) return DeviceRecord::Kind::copy_to_device;
  if (kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH) return DeviceRecord::Kind::copy_to_host;
  return DeviceRecord::Kind::copy_on_device;
}

template <class Activity>
RawRecord raw(const Activity& activity, DeviceRecord::Kind kind, std::uint64_t node, std::uint32_t stream,
              std::uint64_t bytes) {
  return {.record = {.kind = kind,
                     .begin_ns = static_cast<std::int64_t>(activity.start),
                     .end_ns = static_cast<std::int64_t>(activity.end),
                     .label = 0,
                     .stream = stream,
                     .bytes = static_cast<std::int64_t>(bytes),
                     .name = ""},
          .node = node,
          .correlation = activity.correlationId};
}

bool may_launch(const char* call) {
  return std::strstr(call, "Launch") != nullptr || std::strstr(call, "Memcpy") != nullptr ||
         std::strstr(call, "Memset") != nullptr;
}

}  // namespace

struct DeviceTrace::State {
  std::mutex mutex;  // what callbacks and buffers share with the thread that records
  TraceLabels labels;
  std::vector<RawRecord> records;
  std::size_t lost = 0;
  CUpti_SubscriberHandle subscriber = nullptr;  // null: nobody is called back

  void take(const CUpti_Activity& activity) {
    switch (activity.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel9&>(activity);
        records.push_back(raw(kernel, DeviceRecord::Kind::kernel, kernel.graphNodeId, kernel.streamId, 0));
        records.back().record.name = kept(kernel.name);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy5&>(activity);
        records.push_back(raw(copy, copy_kind(copy.copyKind), copy.graphNodeId, copy.streamId, copy.bytes));
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(activity);
        records.push_back(raw(fill, DeviceRecord::Kind::fill, fill.graphNodeId, fill.streamId, fill.bytes));
        break;
      }
      case CUPTI_ACTIVITY_KIND_RUNTIME: {
        const auto& call = reinterpret_cast<const CUpti_ActivityAPI&>(activity);
        records.push_back(raw(call, DeviceRecord::Kind::host_call, 0, call.threadId, 0));
        const char* name = nullptr;
        if (cupti().callback_name(CUPTI_CB_DOMAIN_RUNTIME_API, call.cbid, &name) == CUPTI_SUCCESS)
          records.back().record.name = kept(name);
        break;
      }
      default:
        break;
    }
  }
};

namespace {

DeviceTrace::State* living = nullptr;  // CUPTI's buffers come without a word of ours

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  if (living != nullptr) {
    const std::lock_guard lock(living->mutex);
    CUpti_Activity* activity = nullptr;
    while (cupti().next_record(buffer, valid, &activity) == CUPTI_SUCCESS) living->take(*activity);
    std::size_t lost = 0;
    if (cupti().dropped(context, stream, &lost) == CUPTI_SUCCESS) living->lost += lost;
  }
  std::free(buffer);
}

__global__ void nothing() {}

// Nothing may be thrown through CUPTI: an id that cannot be had leaves its records without a label, and those
// are counted.
void CUPTIAPI on_event(void* trace, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  auto& state = *static_cast<DeviceTrace::State*>(trace);
  const std::lock_guard lock(state.mutex);
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API || domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    const auto& call = *static_cast<const CUpti_CallbackData*>(data);
    if (call.callbackSite == CUPTI_API_ENTER) state.labels.call_entered(call.correlationId);
    return;
  }
  const auto& graph =
      *static_cast<const CUpti_GraphData*>(static_cast<const CUpti_ResourceData*>(data)->resourceDescriptor);
  std::uint64_t node = 0;
  if (cupti().node_id(graph.node, &node) != CUPTI_SUCCESS) return;
  if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) return state.labels.node_made(node);
  std::uint64_t original = 0;
  if (cupti().node_id(graph.originalNode, &original) == CUPTI_SUCCESS)
    state.labels.node_copied(original, node);
}

// cuBLAS launches by way of the driver; a call of the runtime's that does so too is labelled twice alike.
void set_call_callbacks(CUpti_SubscriberHandle subscriber, bool on) {
  const auto set = [&](CUpti_CallbackDomain domain, std::uint32_t calls) {
    for (std::uint32_t call = 1; call < calls; ++call) {
      const char* name = nullptr;
      if (cupti().callback_name(domain, call, &name) == CUPTI_SUCCESS && name != nullptr && may_launch(name))
        cupti().check(cupti().enable_callback(on ? 1 : 0, subscriber, domain, call), name);
    }
  };
  set(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_SIZE);
  set(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE);
}

void unsubscribe(DeviceTrace::State& state) {
  if (state.subscriber != nullptr) cupti().unsubscribe(std::exchange(state.subscriber, nullptr));
}

void subscribe(DeviceTrace::State& state) {
  cupti().check(cupti().subscribe(&state.subscriber, on_event, &state),
                "subscribing (a profiler that runs this process has to be left out)");
  try {
    for (const CUpti_CallbackId id :
         {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED})
      cupti().check(cupti().enable_callback(1, state.subscriber, CUPTI_CB_DOMAIN_RESOURCE, id),
                    "asking for graph nodes");
  } catch (...) {
    unsubscribe(state);
    throw;
  }
}

}  // namespace

std::string DeviceTrace::why_not() { return cupti().problem; }

DeviceTrace::DeviceTrace() : state_(std::make_unique<State>()) {
  if (const std::string problem = why_not(); !problem.empty()) throw std::runtime_error(problem);
  if (living != nullptr) throw std::logic_error("a second DeviceTrace");
  cupti().check(cupti().register_callbacks(give_buffer, take_buffer), "registering buffers");
  subscribe(*state_);
  living = state_.get();
}

DeviceTrace::~DeviceTrace() {
  cudaDeviceSynchronize();
  for (const CUpti_ActivityKind kind : kKinds) cupti().disable(kind);
  cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  unsubscribe(*state_);
  living = nullptr;
}

TraceLabels& DeviceTrace::labels() { return state_->labels; }

void DeviceTrace::start() {
  CUDA_TRY(cudaDeviceSynchronize());
  set_call_callbacks(state_->subscriber, true);
  for (const CUpti_ActivityKind kind : kKinds) cupti().check(cupti().enable(kind), "enabling records");
  // The first kernel that is recorded waits for buffers to be made: it is none of those that count.
  nothing<<<1, 1>>>();
  CUDA_TRY(cudaGetLastError());
  CUDA_TRY(cudaDeviceSynchronize());
  cupti().check(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "fetching records");
  const std::lock_guard lock(state_->mutex);
  state_->records.clear();
  state_->lost = 0;
}

std::vector<DeviceRecord> DeviceTrace::finish() {
  const cudaError_t error = cudaDeviceSynchronize();
  for (const CUpti_ActivityKind kind : kKinds) cupti().check(cupti().disable(kind), "disabling records");
  set_call_callbacks(state_->subscriber, false);
  cupti().check(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "fetching records");
  CUDA_TRY(error);
  const std::lock_guard lock(state_->mutex);
  std::vector<DeviceRecord> records;
  records.reserve(state_->records.size());
  for (const RawRecord& one : state_->records) {
    if (one.record.begin_ns == 0 || one.record.end_ns < one.record.begin_ns)
      ++state_->lost;  // its times could not be had
    records.push_back(one.record);
    if (one.record.kind != DeviceRecord::Kind::host_call)
      records.back().label = state_->labels.of(one.node, one.correlation);
  }
  state_->records.clear();
  state_->labels.forget_calls();
  if (state_->lost > 0) throw std::runtime_error("CUPTI lost " + std::to_string(state_->lost) + " records");
  return records;
}

std::int64_t DeviceTrace::now_ns() {
  std::uint64_t now = 0;
  cupti().timestamp(&now);
  return static_cast<std::int64_t>(now);
}

}  // namespace moetune

#endif
