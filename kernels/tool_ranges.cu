#include "kernels/tool_ranges.h"

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace moetune {
namespace {

// Null where no tool was named to NVTX (NVTX_INJECTION64_PATH, which tools set for what they start).
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t ours = nvtxDomainCreateA("moetune");
  return ours;
}

}  // namespace

bool tool_watches() { return domain() != nullptr; }

void ToolRange::open(const char* name) {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &range);
}

void ToolRange::open(const char* name, int number) {
  open((std::string(name) + ' ' + std::to_string(number)).c_str());
}

void ToolRange::close() { nvtxDomainRangePop(domain()); }

}  // namespace moetune
