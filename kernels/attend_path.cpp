#include "kernels/attend_path.h"

namespace moetune {
namespace {
AttendPath chosen;
}  // namespace

AttendPath attend_path() { return chosen; }
void set_attend_path(const AttendPath& path) { chosen = path; }

}  // namespace moetune
