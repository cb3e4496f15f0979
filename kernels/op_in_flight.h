// What every thread of this process is at, for the message about a hang: a process that no longer answers
// cannot be asked, but a signal handler can still read this. Start at OpInFlight; ops_in_flight() is the
// reader.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace moetune {

// For as long as it lives, its thread is at `name`, which must outlive it (a literal). Nested: the inner one,
// then the outer one again. Costs two stores; threads beyond the first 64 that are inside an op at the same
// time are not seen.
class OpInFlight {
 public:
  explicit OpInFlight(const char* name);
  ~OpInFlight();
  OpInFlight(const OpInFlight&) = delete;
  OpInFlight& operator=(const OpInFlight&) = delete;

 private:
  const char* outer_;
};

// Names into `names`, one for each thread that is inside one; returns how many. Safe in a signal handler.
std::size_t ops_in_flight(std::span<const char*> names);

namespace op_in_flight_detail {

// "... text_of() [with Op = moetune::Gemm; ...]" (GCC), "... text_of() [Op = moetune::Gemm]" (Clang)
template <class Op>
constexpr std::string_view text_of() {
  const std::string_view text = __PRETTY_FUNCTION__;
  const std::size_t equals = text.find("Op = ") + 5;
  const std::size_t end = text.find_first_of("];", equals);
  const std::string_view type = text.substr(equals, end - equals);
  const std::size_t colons = type.rfind("::");
  return colons == std::string_view::npos ? type : type.substr(colons + 2);
}

// The same with an end that C sees.
template <class Op>
struct Name {
  char letters[text_of<Op>().size() + 1] = {};
  constexpr Name() {
    for (std::size_t i = 0; i < text_of<Op>().size(); ++i) letters[i] = text_of<Op>()[i];
  }
};
template <class Op>
inline constexpr Name<Op> name_of_op;

}  // namespace op_in_flight_detail

// "Gemm" of a type Gemm, made while compiling.
template <class Op>
constexpr const char* op_name() {
  return op_in_flight_detail::name_of_op<Op>.letters;
}

}  // namespace moetune
