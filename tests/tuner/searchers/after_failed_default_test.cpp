// A default that cannot be measured is followed by what is likely to be; one that can changes nothing.
#include "tuner/searchers/after_failed_default.h"

#include <gtest/gtest.h>

#include "tests/tuner/support/tune_fixture.h"

namespace moetune {
namespace {

std::vector<Configuration> asked_after(Outcome outcome) {
  AfterFailedDefaultSearcher searcher(
      with_top_k(8), [] { return std::vector{with_top_k(2), with_top_k(8), with_top_k(1)}; },
      std::make_unique<ListSearcher>(std::vector<Configuration>{with_top_k(5), with_top_k(2)}));
  Trial told;
  told.configuration = with_top_k(8);
  told.outcome = outcome;
  searcher.tell(told);
  std::vector<Configuration> asked;
  while (const auto next = searcher.ask()) {
    asked.push_back(*next);
    told.configuration = *next;
    told.outcome = Outcome::timed_out;  // of another configuration: it brings nothing up again
    searcher.tell(told);
  }
  return asked;
}

TEST(AfterFailedDefault, TheGivenOnesComeNext) {
  for (const Outcome outcome :
       {Outcome::timed_out, Outcome::out_of_memory, Outcome::infeasible, Outcome::crashed})
    EXPECT_EQ(asked_after(outcome),
              (std::vector{with_top_k(2), with_top_k(1), with_top_k(5), with_top_k(2)}));
}

TEST(AfterFailedDefault, NothingChangesWhereItWasMeasured) {
  EXPECT_EQ(asked_after(Outcome::ok), (std::vector{with_top_k(5), with_top_k(2)}));
}

}  // namespace
}  // namespace moetune
