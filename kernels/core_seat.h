// Threads that keep a core each. A thread that wanders is slower on one core than on another (another guest
// on the other half of a core, a cache left behind) and its times say more about where it was than about what
// it did: pinned, repeated measurements of one configuration spread over 2 to 5 %, wandering over 5 to 16 %
// (reports/decisions/0007).
#pragma once

namespace moetune {

// From now on every thread that works in a ParallelPool of this process stays on a core, among those the
// process may use: who asks for work on the one with the fewest others that ask, who only helps on the one
// with the fewest of both. For processes that measure and start no other processes:
// these would inherit the one core.
void keep_threads_on_cores();

// Takes the calling thread's seat where threads keep their cores and it has none yet. Cheap otherwise. A
// helper changes seats when somebody who asks has sat down or left since.
enum class SeatOf { who_asks, a_helper };
void take_core_seat(SeatOf whom = SeatOf::who_asks);

// For a thread that is rank `rank` of `ranks`, of which rank 0 sits on core `first` (-1: it has no seat, and
// nothing happens): ranks wait for each other, so that they sit as far from each other as there are cores,
// whoever else sits there. Two ranks on one core took eight times as long as on two. A thread runs where its
// maker may until it takes a seat of its own.
void take_core_seat_of_rank(int first, int rank, int ranks);

// The core the calling thread keeps; -1: none.
int core_of_this_thread();

}  // namespace moetune
