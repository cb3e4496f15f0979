// Fuzzes the reader of server-sent events: the same bytes in one piece and byte by byte give the same events.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/serving/event_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto events_of = [&](std::size_t piece) {
    moetune::EventStream stream;
    std::vector<std::string> events;
    for (std::size_t at = 0; at < text.size(); at += piece)
      stream.feed(text.substr(at, piece), [&](const std::string& event) { events.push_back(event); });
    return events;
  };
  if (events_of(1) != events_of(size + 1)) std::abort();
  return 0;
}
