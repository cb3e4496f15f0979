#include "tuner/other_work_file.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

using Names = std::vector<std::string>;

TEST(OtherWorkFile, KeepsEveryNameOnceOverSittings) {
  const TemporaryDirectory folder;
  const std::string run = folder.path().string();
  EXPECT_TRUE(read_other_work(run).empty());
  add_other_work(run, {});
  EXPECT_FALSE(std::filesystem::exists(run + "/other_work.txt")) << "nothing to say";
  add_other_work(run, {"make (process 7, 1.00 cores)"});
  add_other_work(run, {"cc1 (process 8, 0.50 cores)", "make (process 7, 1.00 cores)"});
  EXPECT_EQ(read_other_work(run), (Names{"make (process 7, 1.00 cores)", "cc1 (process 8, 0.50 cores)"}));
}

TEST(OtherWorkFile, MayHoldAnything) {
  const TemporaryDirectory folder;
  const std::string run = folder.path().string();
  std::ofstream file(run + "/other_work.txt", std::ios::binary);
  file << "\n\x1b[2Ja\n";
  for (int i = 0; i < 1000; ++i) file << "name " << i << "\n";
  file.close();
  const Names names = read_other_work(run);
  EXPECT_EQ(names.size(), 100U);
  EXPECT_EQ(names[0].find('\x1b'), std::string::npos) << "nothing in it moves a cursor";
}

}  // namespace
}  // namespace moetune
