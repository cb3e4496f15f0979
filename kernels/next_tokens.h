// The end of a decoding step, so that the next one can start without the host: what was sampled (or what is
// to be fed instead) becomes the input, positions advance, and a log that the host can read without a copy
// takes id and time.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

// The log's clock starts: entry 0 of log_ns.
struct StartClock {
  std::int64_t* log_ns;
};
void run(Cpu& cpu, const StartClock& op);
void run(Cuda& cuda, const StartClock& op);

struct NextTokens {
  // (2) i32: the step's number, counted on by this op; and whether `forced` is fed.
  Tensor state;
  Tensor sampled;        // (rows) i32, what the model chose
  Tensor forced;         // (steps, rows) i32, fed after each step in place of the choice
  Tensor ids;            // (rows) i32, written: the next step's inputs
  Tensor positions;      // (rows) i32, + 1
  Tensor keys;           // (rows) i32, + 1: of the next draw
  Tensor log_ids;        // (steps, rows) i32, written: what was sampled
  std::int64_t* log_ns;  // (steps + 1), written at step + 1: nanoseconds of a steady clock
};
void run(Cpu& cpu, const NextTokens& op);
void run(Cuda& cuda, const NextTokens& op);

}  // namespace moetune
