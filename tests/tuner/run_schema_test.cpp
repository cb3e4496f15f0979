// run.schema.json describes what this program writes, and refuses what its readers refuse.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/support/report_example.h"
#include "tuner/json_fields.h"
#include "tuner/json_schema.h"
#include "tuner/trial_log.h"

namespace moetune {
namespace {
using nlohmann::json;

json schema() { return read_json_file(source_dir() + "/profiles/run.schema.json"); }

// The example as its files hold it.
json written_run() {
  const TemporaryDirectory folder;
  const RunReport example = example_report();
  {
    TrialLog log(folder / "trials.jsonl");
    for (const Trial& trial : example.trials) log.append(trial);
    Trial again = example.trials[1];
    again.turn = FinalTurn{.after = 4, .finalists = {0, 1}, .pass = 0};
    log.append(again);
  }
  json trials = json::array();
  std::ifstream lines(folder / "trials.jsonl");
  for (std::string line; std::getline(lines, line);) trials.push_back(json::parse(line));
  return {{"request", to_json_value(example.request)}, {"hardware", example.hardware}, {"trials", trials}};
}

TEST(RunSchema, DescribesWhatIsWritten) {
  const json run = written_run();
  EXPECT_EQ(run.at("trials").size(), 5U);
  EXPECT_EQ(schema_violations(run, schema()), std::vector<std::string>{});
}

TEST(RunSchema, RefusesWhatTheReadersRefuse) {
  const auto is_refused = [](const char* pointer, const json& value) {
    json run = written_run();
    run[json::json_pointer(pointer)] = value;
    return !schema_violations(run, schema()).empty();
  };
  EXPECT_TRUE(is_refused("/request/schema", 2));
  EXPECT_TRUE(is_refused("/request/gate", "int3"));
  EXPECT_TRUE(is_refused("/trials/0/outcome", "fine"));
  EXPECT_TRUE(is_refused("/trials/0/metrics/tpot_ms/origin", "guessed"));
  EXPECT_TRUE(is_refused("/trials/0/seconds", -1));
  EXPECT_TRUE(is_refused("/trials/0/trial", "first"));
  json run = written_run();
  run["trials"][0]["metrics"]["tpot_ms"].erase("low");
  EXPECT_FALSE(schema_violations(run, schema()).empty()) << "half an interval";
}

}  // namespace
}  // namespace moetune
