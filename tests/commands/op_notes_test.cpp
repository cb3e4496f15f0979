// Why there are few distinct layers is said as it is: for lack of time, of memory, or of layers.
#include "tuner/commands/op_notes.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace moetune {
namespace {

OpTiming timed(const std::string& op, int layers, bool has_fewer_layers, std::size_t runs = 6) {
  OpTiming timing;
  timing.op = op;
  timing.tokens = 1;
  timing.layers = layers;
  timing.has_fewer_layers = has_fewer_layers;
  timing.microseconds.assign(runs, 1.0);
  timing.cost.bytes = 1.0;
  return timing;
}

OpMeasurement found(std::vector<OpTiming> timings, bool is_synthetic) {
  OpMeasurement found;
  found.model.is_synthetic = is_synthetic;
  found.wanted_layers = 4;
  found.runs = 25;
  found.rates.read_gb_per_s = 10.0;
  found.timings = std::move(timings);
  return found;
}

std::string few_layers(const OpMeasurement& found) {
  const std::vector<std::string> notes = op_notes(found);
  const auto note =
      std::ranges::find_if(notes, [](const std::string& text) { return text.starts_with("Only "); });
  return note == notes.end() ? "" : *note;
}

TEST(OpNotes, RunsThatWereCutShortAreNoReasonForFewLayers) {
  EXPECT_EQ(few_layers(found({timed("moe", 2, false)}, false)),
            "Only 2 distinct layers, not 4: the model has no more.");
  EXPECT_EQ(few_layers(found({timed("moe", 2, false)}, true)),
            "Only 2 distinct layers, not 4: no more fit into memory.");
  EXPECT_EQ(few_layers(found({timed("moe", 4, false), timed("head", 1, false)}, true)), "") << "one head";
}

TEST(OpNotes, LayersThatTimeLeftOutAreSaidWhereEveryRunWasMade) {
  EXPECT_EQ(few_layers(found({timed("moe", 3, true, 25)}, true)),
            "Only 3 distinct layers, not 4: no more within --budget.");
  OpMeasurement made_fewer = found({timed("moe", 3, false, 25)}, true);
  made_fewer.has_fewer_layers = true;
  EXPECT_EQ(few_layers(made_fewer), "Only 3 distinct layers, not 4: no more within --budget.");
  EXPECT_EQ(few_layers(found({timed("moe", 2, true), timed("dense", 1, false)}, false)),
            "Only 1 distinct layer, not 4: the model has no more.")
      << "of the op with the fewest";
  EXPECT_EQ(few_layers(found({timed("moe", 4, false), timed("dense", 1, true, 0)}, true)), "")
      << "nothing is said about an op that was not timed";
}

TEST(OpNotes, MarksOfTheTableAreExplained) {
  OpTiming fast = timed("moe", 4, false);
  fast.is_flushed = true;
  fast.cost.bytes = 1e9;  // in a microsecond
  const std::vector<std::string> notes = op_notes(found({fast}, true));
  const auto has = [&](const std::string& begin) {
    return std::ranges::any_of(notes, [&](const std::string& note) { return note.starts_with(begin); });
  };
  EXPECT_TRUE(has("* so little"));
  EXPECT_TRUE(has("in cache: faster than memory"));
  EXPECT_FALSE(has("Dense products by"));
}

}  // namespace
}  // namespace moetune
