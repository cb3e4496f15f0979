// What tuner and worker say to each other: JSON lines over two descriptors of their own, so that whatever a
// target prints cannot be mistaken for a message. Tuner to worker: setup, then measure requests. Worker to
// tuner: hello, progress, ready (or setup_failed), then for each request progress and one result. End of
// input ends the worker.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include <nlohmann/json.hpp>

#include "tuner/target.h"

namespace moetune {

inline constexpr int worker_protocol_version = 1;
inline constexpr int worker_input_descriptor = 3;   // the worker reads requests here
inline constexpr int worker_output_descriptor = 4;  // and answers here; its stdout is joined to stderr
// What a worker prints when it gets this signal, and how the line begins: what it is at.
inline constexpr int worker_where_signal = SIGUSR2;
inline constexpr std::string_view worker_where_prefix = "in flight: ";
inline constexpr std::size_t longest_message_bytes = std::size_t{16} << 20;

namespace message {

// Tuner to worker.
struct Setup {
  std::int64_t tuner_pid = 0;
  nlohmann::json document;  // the command's own; the protocol does not look inside
};
struct Measure {
  std::int64_t trial = 0;
  Configuration configuration;
  std::uint64_t seed = 0;
};

// Worker to tuner.
struct Hello {
  int protocol = 0;
  std::string build;
};
struct Progress {
  std::string text;
};
struct Ready {};
struct SetupFailed {
  bool bad_input = false;  // InputError: exit code 2
  std::string text;
};
struct Result {
  std::int64_t trial = 0;
  TargetResult result;
};
struct Unusable {  // the target threw: the worker ends itself after this
  std::int64_t trial = 0;
  bool out_of_memory = false;  // std::bad_alloc
  std::string reason;
};

}  // namespace message

using ToWorker = std::variant<message::Setup, message::Measure>;
using FromWorker = std::variant<message::Hello, message::Progress, message::Ready, message::SetupFailed,
                                message::Result, message::Unusable>;

// One line, with its line end. Texts that are not UTF-8 are made so.
std::string to_line(const ToWorker& message);
std::string to_line(const FromWorker& message);

// Throws InputError for anything that is not such a line.
ToWorker to_worker_from_line(std::string_view line);
FromWorker from_worker_from_line(std::string_view line);

}  // namespace moetune
