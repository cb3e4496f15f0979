// Threads that keep a core each. A thread that wanders is slower on one core than on another (another guest
// on the other half of a core, a cache left behind) and its times say more about where it was than about what
// it did: pinned, repeated measurements of one configuration spread over 2 to 5 %, wandering over 5 to 16 %
// (reports/decisions/0007).
#pragma once

namespace moetune {

// From now on every thread that works in a ParallelPool of this process stays on the core, among those the
// process may use, on which the fewest others sit. For processes that measure and start no other processes:
// these would inherit the one core.
void keep_threads_on_cores();

// Takes the calling thread's seat where threads keep their cores and it has none yet. Cheap otherwise.
void take_core_seat();

// The core the calling thread keeps; -1: none.
int core_of_this_thread();

}  // namespace moetune
