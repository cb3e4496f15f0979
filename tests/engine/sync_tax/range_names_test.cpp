#include "engine/sync_tax/range_names.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(RangeNames, AreReadBackAsWhatTheyName) {
  std::set<std::string_view> seen;
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::string_view text = range_name(Activity::compute, static_cast<Row>(row));
    EXPECT_TRUE(seen.insert(text).second) << text;
    EXPECT_EQ(class_of_range(text), (KernelClass{Activity::compute, static_cast<Row>(row)}));
    EXPECT_EQ(text.data()[text.size()], '\0');
  }
  for (const Activity activity :
       {Activity::collective, Activity::expert_copy, Activity::host_wait, Activity::nothing}) {
    const std::string_view text = range_name(activity, Row::router);
    EXPECT_TRUE(seen.insert(text).second) << text;
    EXPECT_EQ(class_of_range(text), (KernelClass{activity, Row::other}));
  }
}

TEST(RangeNames, OfOthersAreTakenForNothing) {
  for (const std::string_view text : {"", "router", "moetune:", "moetune: routers", "forward"})
    EXPECT_EQ(class_of_range(text), std::nullopt) << text;
}

}  // namespace
}  // namespace moetune
