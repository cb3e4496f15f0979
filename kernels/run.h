// The seam: one verb for every op on every device. An op is a struct of views; each backend overloads run()
// for it. Ops enqueue and return; on a CPU the work is done when run() returns.
#pragma once

#include <utility>
#include <variant>

#include "kernels/device.h"
#include "kernels/op_in_flight.h"

namespace moetune {

template <class Op>
void run(Device& device, const Op& op) {
  const OpInFlight in_flight(op_name<Op>());
  std::visit([&op](auto& backend) { run(backend, op); }, device);
}

}  // namespace moetune
