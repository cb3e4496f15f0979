// A target for tests: the result is a pure function of configuration and seed. Made up, but shaped like the real thing:
// fewer active experts and fewer bits are faster and less accurate. Settings make chosen configurations fail.
#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "tuner/target.h"

namespace moetune {

// settings, all optional:
//   {"delay_ms": 5,                            time every trial takes
//    "fail": [{"when": {"top_k": 3}, "how": "crash"}]}
//      when: knob values that must all match; {}: always
//      how:  crash (SIGSEGV), kill (SIGKILL), exit, hang, out_of_memory (std::bad_alloc), throw, garbage, print,
//            wrong_output, not_finite, crash_once (only the first attempt; needs "marker": file)
// Throws InputError for anything else.
std::unique_ptr<Target> make_synthetic_target(const nlohmann::json& settings);

}  // namespace moetune
