#include "tests/support/cupti_trace.h"

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

#ifndef MOETUNE_HAS_CUPTI_HEADER
#define MOETUNE_HAS_CUPTI_HEADER 0
#endif

#if MOETUNE_HAS_CUPTI_HEADER
#include <cupti.h>
#include <dlfcn.h>
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

struct Cupti {
  std::string problem;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&cuptiGetCallbackName) callback_name = nullptr;

  Cupti() {
    void* library = nullptr;
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
      if (library = dlopen(name, RTLD_NOW); library != nullptr) break;
    if (library == nullptr) {
      problem = dlerror();
      return;
    }
    const auto load = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) problem = std::string("CUPTI without ") + name;
    };
    load("cuptiActivityEnable", enable);
    load("cuptiActivityDisable", disable);
    load("cuptiActivityRegisterCallbacks", register_callbacks);
    load("cuptiActivityFlushAll", flush);
    load("cuptiActivityGetNextRecord", next_record);
    load("cuptiActivityGetNumDroppedRecords", dropped);
    load("cuptiGetCallbackName", callback_name);
  }
};

const Cupti& cupti() {
  static const Cupti loaded;
  return loaded;
}

void try_cupti(CUptiResult result, const char* what) {
  if (result != CUPTI_SUCCESS)
    throw std::runtime_error(std::string("CUPTI: ") + what + " failed with " + std::to_string(result));
}

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
    try_cupti(cupti().register_callbacks(give_buffer, take_buffer), "register callbacks");
    return true;
  }();
  static_cast<void>(registered);
  for (const CUpti_ActivityKind kind : kKinds) try_cupti(cupti().enable(kind), "enable");
  try_cupti(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "flush");
  const std::lock_guard lock(mutex);
  found = {};
}

CudaCalls finish_cupti_trace() {
  for (const CUpti_ActivityKind kind : kKinds) try_cupti(cupti().disable(kind), "disable");
  try_cupti(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "flush");
  const std::lock_guard lock(mutex);
  return found;
}

#else

std::string why_no_cupti() { return "built without CUPTI's header"; }
void start_cupti_trace() { throw std::logic_error(why_no_cupti()); }
CudaCalls finish_cupti_trace() { throw std::logic_error(why_no_cupti()); }

#endif

}  // namespace moetune::testing
