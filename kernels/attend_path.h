// Which attention kernels a GPU runs. The engine leaves this alone; tests and benches turn it.
#pragma once

namespace moetune {

struct AttendPath {
  bool is_portable = false;  // mma.sync and single blocks also where the GPU has wgmma and clusters
  int most_cluster = 8;      // blocks that join by way of their shared memory
};

AttendPath attend_path();
void set_attend_path(const AttendPath& path);  // for the whole process

}  // namespace moetune
