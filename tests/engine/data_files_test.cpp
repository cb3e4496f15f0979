// How --model and the data folders are found.
#include "engine/data_files.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

class DataFiles : public testing::Test {
 protected:
  DataFiles() {
    fs::create_directories(root.path() / "models" / "small");
    write_bytes(root / "models/small/config.json", "{}");
    fs::create_directories(root.path() / "models" / "not-a-model");
    fs::create_directories(root.path() / "search_spaces");
    ::setenv("MOETUNE_DATA", root.path().c_str(), 1);
  }
  ~DataFiles() override { ::unsetenv("MOETUNE_DATA"); }
  TemporaryDirectory root;
};

TEST_F(DataFiles, AreBelowTheFolderOfTheEnvironment) {
  EXPECT_EQ(models_folder(), root / "models");
  EXPECT_EQ(search_spaces_folder(), root / "search_spaces");
  EXPECT_EQ(profiles_folder(), "");
  EXPECT_EQ(model_names(), std::vector<std::string>{"small"});
}

TEST_F(DataFiles, AModelIsADirectoryOrAName) {
  EXPECT_EQ(model_directory("small"), root / "models/small");
  EXPECT_EQ(model_directory(root.path().string()), root.path().string());
  EXPECT_TRUE(has_text(
      message_of<InputError>([] { model_directory("smal"); }),
      R"(model: "smal" is no directory (accepted: a checkpoint directory with config.json, or one of: small))"));
}

TEST_F(DataFiles, ATrainedModelHasNoOverrides) {
  EXPECT_TRUE(
      has_text(message_of<InputError>([] { model_directory("small:layers=2"); }),
               R"(model: "small:layers=2": small is a trained model, of which nothing can be overridden)"));
}

TEST_F(DataFiles, AWrongEnvironmentIsRefusedLoudly) {
  ::setenv("MOETUNE_DATA", (root / "search_spaces").c_str(), 1);
  EXPECT_TRUE(
      has_text(message_of<InputError>([] { models_folder(); }), "MOETUNE_DATA: " + (root / "search_spaces")));
}

TEST_F(DataFiles, PlacesAreNamedForWhoeverMissesSomething) {
  EXPECT_EQ(server_tables_folder(), "");
  EXPECT_EQ(data_places(), root.path().string() + ", which MOETUNE_DATA names");
  ::unsetenv("MOETUNE_DATA");
  EXPECT_TRUE(has_text(data_places(), "share/moetune, nor in a source tree above /"));
}

TEST(DataFilesOfTheSourceTree, AreFoundFromTheBuildFolder) {
  const std::string folder = models_folder();
  ASSERT_FALSE(folder.empty());
  EXPECT_TRUE(fs::exists(fs::path(folder) / "tiny-moe" / "config.json")) << folder;
}

}  // namespace
}  // namespace moetune
