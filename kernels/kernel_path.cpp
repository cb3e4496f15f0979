#include "kernels/kernel_path.h"

namespace moetune {
namespace {
KernelPath chosen;
}  // namespace

KernelPath kernel_path() { return chosen; }
void set_kernel_path(const KernelPath& path) { chosen = path; }

}  // namespace moetune
