// Any bytes as a routing trace: either InputError or a trace that everything that replays one can take.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "engine/facts/error.h"
#include "engine/trace/trace_analysis.h"
#include "engine/trace/trace_file.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const moetune::RoutingTrace trace = moetune::read_trace(bytes, "input");
    require(trace.tokens() >= 1 && trace.layers >= 1 && trace.k >= 1);
    require(std::ssize(trace.expert_ids) == trace.tokens() * trace.layers * trace.k);
    // Written again it is the same trace.
    const std::string again = moetune::trace_bytes(trace);
    require(moetune::read_trace(std::as_bytes(std::span(again)), "again").expert_ids == trace.expert_ids);
    // A file of a few hundred bytes may claim any number of experts: what is analysed has to stay small.
    if (trace.k <= trace.experts && trace.experts * trace.layers <= 256 && trace.tokens() <= 256)
      moetune::analyse_trace(trace);
  } catch (const moetune::InputError&) {
  }
  return 0;
}
