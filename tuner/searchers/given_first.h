// Configurations that are known to matter come first, then whatever another searcher proposes: a nightly
// search begins with the front of its baseline.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "tuner/searcher.h"

namespace moetune {

class GivenFirstSearcher : public Searcher {
 public:
  // then: empty pointer: nothing after the given ones.
  GivenFirstSearcher(std::vector<Configuration> given, std::unique_ptr<Searcher> then);
  std::optional<Configuration> ask() override;
  void tell(const Trial& trial) override;

 private:
  std::vector<Configuration> given_;
  std::unique_ptr<Searcher> then_;
  std::set<Configuration> known_;  // asked or told
  std::size_t next_ = 0;
};

}  // namespace moetune
