// Where there is no CUDA; else tool_ranges.cu.
#include "kernels/tool_ranges.h"

#if !MOETUNE_HAS_CUDA

namespace moetune {

bool tool_watches() { return false; }
void ToolRange::open(const char*) {}
void ToolRange::open(const char*, int) {}
void ToolRange::close() {}

}  // namespace moetune

#endif
