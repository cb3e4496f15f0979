#include "tests/support/cupti_trace.h"

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

#ifndef MOETUNE_HAS_CUPTI_HEADER
#define MOETUNE_HAS_CUPTI_HEADER 0
#endif

#if MOETUNE_HAS_CUPTI_HEADER
#include "kernels/cuda/cupti_library.cuh"
#endif

namespace moetune::testing {

int CudaCalls::named(const std::string& text) const {
  int count = 0;
  for (const auto& [name, times] : calls)
    if (name.find(text) != std::string::npos) count += times;
  return count;
}

std::string CudaCalls::text() const {
  std::string lines =
      std::to_string(waits) + " waits, " + std::to_string(copies_to_host) + " copies to the host";
  for (const auto& [name, times] : calls) lines += "\n  " + name + " " + std::to_string(times);
  return lines;
}

#if MOETUNE_HAS_CUPTI_HEADER
namespace {

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
                                         CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_MEMCPY};
constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

const cuda::CuptiLibrary& cupti() { return cuda::CuptiLibrary::get(); }

std::mutex mutex;  // buffers come back on a thread of CUPTI's
CudaCalls found;

void note_call(CUpti_CallbackDomain domain, std::uint32_t id) {
  const char* name = nullptr;
  if (cupti().callback_name(domain, id, &name) != CUPTI_SUCCESS) name = "unknown";
  const std::string text = name;
  ++found.calls[text.substr(0, text.find("_v"))];
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = kBufferBytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cupti().next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME)
      note_call(CUPTI_CB_DOMAIN_RUNTIME_API, reinterpret_cast<const CUpti_ActivityAPI*>(record)->cbid);
    if (record->kind == CUPTI_ACTIVITY_KIND_DRIVER)
      note_call(CUPTI_CB_DOMAIN_DRIVER_API, reinterpret_cast<const CUpti_ActivityAPI*>(record)->cbid);
    if (record->kind == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION) ++found.waits;
    // The kind of copy is the byte behind the kind of record in every version of it.
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY &&
        reinterpret_cast<const CUpti_ActivityMemcpy5*>(record)->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH)
      ++found.copies_to_host;
  }
  std::size_t lost = 0;
  if (cupti().dropped(context, stream, &lost) == CUPTI_SUCCESS) found.dropped += static_cast<int>(lost);
  std::free(buffer);
}

}  // namespace

std::string why_no_cupti() { return cupti().problem; }

void start_cupti_trace() {
  static const bool registered = [] {
    cupti().check(cupti().register_callbacks(give_buffer, take_buffer), "register callbacks");
    return true;
  }();
  static_cast<void>(registered);
  for (const CUpti_ActivityKind kind : kKinds) cupti().check(cupti().enable(kind), "enable");
  cupti().check(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "flush");
  const std::lock_guard lock(mutex);
  found = {};
}

CudaCalls finish_cupti_trace() {
  for (const CUpti_ActivityKind kind : kKinds) cupti().check(cupti().disable(kind), "disable");
  cupti().check(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "flush");
  const std::lock_guard lock(mutex);
  return found;
}

#else

std::string why_no_cupti() { return "built without CUPTI's header"; }
void start_cupti_trace() { throw std::logic_error(why_no_cupti()); }
CudaCalls finish_cupti_trace() { throw std::logic_error(why_no_cupti()); }

#endif

}  // namespace moetune::testing
