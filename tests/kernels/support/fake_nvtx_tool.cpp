// A tool that takes NVTX ranges, as Nsight Systems does: it writes every range of the domain "moetune" to
// stderr, a line each when it opens and when it closes. NVTX loads what NVTX_INJECTION64_PATH names.
#include <cstdio>
#include <cstring>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace {

int ours = 0;
int depth = 0;

nvtxDomainHandle_t create(const char* name) {
  return std::strcmp(name, "moetune") == 0 ? reinterpret_cast<nvtxDomainHandle_t>(&ours) : nullptr;
}
int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  std::fprintf(stderr, "open %s\n", range->message.ascii);
  return depth++;
}
int pop(nvtxDomainHandle_t) {
  std::fprintf(stderr, "close\n");
  return --depth;
}

template <class Function>
void put(NvtxFunctionTable table, unsigned at, Function function) {
  *table[at] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  put(table, NVTX_CBID_CORE2_DomainCreateA, create);
  put(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  put(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

#endif
