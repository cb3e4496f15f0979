// Lets a worker say what it is at although it does not answer: a signal makes it print the ops in flight
// (kernels/op_in_flight.h), also while a kernel hangs. The tuner sends it to one that ran out of time.
#pragma once

namespace moetune {

// From now on worker_where_signal prints one line, worker_where_prefix and the names, to stderr.
void answer_where_signal();

}  // namespace moetune
