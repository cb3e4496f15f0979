#include "tuner/worker_protocol.h"

#include <limits>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

// Every message as it comes out of its own line, as that message's line again.
void expect_round_trip(const FromWorker& message) {
  const std::string line = to_line(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const FromWorker back = from_worker_from_line(line);
  EXPECT_EQ(back.index(), message.index());
  EXPECT_EQ(to_line(back), line);
}
void expect_round_trip(const ToWorker& message) {
  const ToWorker back = to_worker_from_line(to_line(message));
  EXPECT_EQ(back.index(), message.index());
  EXPECT_EQ(to_line(back), to_line(message));
}

TEST(WorkerProtocol, MessagesComeThrough) {
  expect_round_trip(ToWorker(message::Setup{.tuner_pid = 7, .document = {{"model", "a\nb"}}}));
  expect_round_trip(ToWorker(
      message::Measure{.trial = 3, .configuration = {{{"top_k", "7"}}}, .seed = 18446744073709551615U}));
  expect_round_trip(FromWorker(message::Hello{.protocol = 1, .build = "0.1.0 abc"}));
  expect_round_trip(FromWorker(message::Progress{.text = "measuring\n12/40"}));
  expect_round_trip(FromWorker(message::Ready{}));
  expect_round_trip(FromWorker(message::SetupFailed{.bad_input = true, .text = "config.json: no"}));
  expect_round_trip(FromWorker(message::Unusable{.trial = 3, .out_of_memory = true, .reason = "bad"}));
  message::Result result{.trial = 3,
                         .result = {.outcome = Outcome::wrong_output, .reason = "differs", .metrics = {}}};
  result.result.metrics["tpot_ms"].value = 1.0 / 3.0;
  expect_round_trip(FromWorker(result));
}

TEST(WorkerProtocol, TextsThatAreNotUtf8DoNotStopAMessage) {
  const FromWorker back = from_worker_from_line(to_line(FromWorker(message::Progress{.text = "\xff\xfe"})));
  EXPECT_EQ(std::get<message::Progress>(back).text, "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(WorkerProtocol, MetricsThatAreNotFiniteCannotBeSent) {
  message::Result result{.trial = 3, .result = {}};
  result.result.metrics["tpot_ms"].value = std::numeric_limits<double>::infinity();
  EXPECT_THROW(to_line(FromWorker(result)), std::domain_error);
}

TEST(WorkerProtocol, AnythingElseIsRefused) {
  const auto complaint = [](std::string_view line) {
    return message_of<InputError>([&] { from_worker_from_line(line); });
  };
  EXPECT_TRUE(has_text(complaint(""), "message from the worker"));
  EXPECT_TRUE(has_text(complaint("\x01\xff"), "message from the worker"));
  EXPECT_TRUE(has_text(complaint("[1]"), "an object with one field"));
  EXPECT_TRUE(has_text(complaint("{}"), "an object with one field"));
  EXPECT_TRUE(has_text(complaint(R"({"ready":{},"hello":{}})"), "an object with one field"));
  EXPECT_TRUE(has_text(complaint(R"({"bye":{}})"), "\"bye\" (accepted: hello"));
  EXPECT_TRUE(has_text(complaint(R"({"result":3})"), "result: 3 (accepted: an object)"));
  EXPECT_TRUE(has_text(complaint(R"({"result":{"trial":3,"outcome":"great","reason":"","metrics":{}}})"),
                       "outcome: \"great\""));
  EXPECT_TRUE(
      has_text(complaint(R"({"result":{"trial":3,"outcome":"ok","reason":"","metrics":{"tpot_ms":"fast"}}})"),
               "tpot_ms"));
  EXPECT_TRUE(has_text(message_of<InputError>([] { to_worker_from_line(R"({"measure":{}})"); }),
                       "message to the worker: measure: field 'trial' is missing"));
}

}  // namespace
}  // namespace moetune
