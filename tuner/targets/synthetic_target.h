// A target for tests: the result is a pure function of configuration and seed. Made up, but shaped like the
// real thing: fewer active experts and fewer bits are faster and less accurate. Settings make chosen
// configurations fail.
#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "tuner/target.h"

namespace moetune {

// settings, all optional:
//   {"delay_ms": 5,                             time every trial takes
//    "timing_only": true,                       no accuracy
//    "recording_only": true,                    where the time goes, and nothing else
//    "records_apart": true,                     the study asks for it after the search, as on a GPU
//    "mood": 0.5,                                how much slower the machine is at its worst: a share that
//    depends on the
//                                               seed alone, so on when it is measured and not on what
//    "slower": [{"when": {"top_k": 7}, "factor": 1.2}]   times of these, always: a planted slowdown
//    "search_factor": {"when": {"top_k": 8}, "factor": 1.4}
//                                               times of these, unless timing_only: the machine was slow just
//                                               then
//    "audit": "file",                            gets a line whenever a measurement begins: configuration,
//    process "setup": "hang",                           fails while it is set up: hang, kill, throw,
//    bad_input "fail": [{"when": {"top_k": 3}, "how": "crash", "once": "marker-file"}]}
//      when: knob values that must all match; {} matches everything
//      how:  crash (SIGSEGV), kill (SIGKILL), exit (status 3), hang, out_of_memory (std::bad_alloc), throw,
//      garbage (on the
//            protocol), print (on stdout, harmless), wrong_output, infeasible, not_finite, orphan (starts a
//            process, writes its number into "pid_file", is killed), fill_memory (takes 64 MiB at a time, 4
//            GiB at most), or one of device_faults()
//      once: only while this file does not exist; it is made then
// Throws InputError for anything else.
std::unique_ptr<Target> make_synthetic_target(const nlohmann::json& settings);

}  // namespace moetune
