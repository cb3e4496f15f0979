#include "tuner/serving/event_stream.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

std::vector<std::string> events_of(const std::string& text, std::size_t piece) {
  EventStream stream;
  std::vector<std::string> events;
  for (std::size_t at = 0; at < text.size(); at += piece)
    stream.feed(std::string_view(text).substr(at, piece),
                [&](const std::string& data) { events.push_back(data); });
  return events;
}

TEST(EventStream, TheSameEventsInPiecesOfAnySize) {
  const std::string text =
      ": hello\ndata: {\"a\": 1}\n\nevent: x\ndata:no blank\r\n\r\ndata: two\rdata: lines\r\rid: "
      "7\n\ndata\n\ndata: [DONE]\n\ndata: cut off";
  const std::vector<std::string> expected{"{\"a\": 1}", "no blank", "two\nlines", "", "[DONE]"};
  for (std::size_t piece = 1; piece <= text.size(); ++piece)
    EXPECT_EQ(events_of(text, piece), expected) << piece;
}

TEST(EventStream, AnEventComesWithItsBlankLineAndNotLater) {
  EventStream stream;
  int events = 0;
  const auto count = [&](const std::string&) { ++events; };
  stream.feed("data: 1\n", count);
  EXPECT_EQ(events, 0);
  stream.feed("\n", count);
  EXPECT_EQ(events, 1);
  stream.feed("data: 2\r\n\r", count);
  EXPECT_EQ(events, 2);
  stream.feed("\n", count);
  EXPECT_EQ(events, 2);
}

TEST(EventStream, AnEndlessEventIsAFault) {
  EventStream stream;
  const std::string kilobyte(1024, 'x');
  const auto ignore = [](const std::string&) {};
  std::size_t fed = 0;
  while (stream.feed(kilobyte, ignore) && fed < 2 * EventStream::longest_event) fed += kilobyte.size();
  EXPECT_LE(fed, EventStream::longest_event);
  EXPECT_FALSE(stream.feed("\n\n", ignore));
}

}  // namespace
}  // namespace moetune
