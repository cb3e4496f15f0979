// Fuzzes the reader of raw times (measure --samples-out). Any bytes give a series or an InputError, and what was read is written
// as it was.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/facts/error.h"
#include "tuner/sample_series.h"

namespace {
using namespace moetune;

std::string written(const SampleSeries& series) {
  std::string text = header_line(series.header);
  for (const SampleProcess& process : series.processes) {
    text += process_line(process);
    for (const SampleRun& run : process.runs) text += run_line(run);
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string once = written(parse_sample_series({reinterpret_cast<const char*>(data), size}, "samples"));
    // Written times are rounded: the second writing has to give the same, as long as rounding leaves them finite.
    if (once.find("null") == std::string::npos && written(parse_sample_series(once, "again")) != once) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
