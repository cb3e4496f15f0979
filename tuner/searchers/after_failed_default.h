// Where the default configuration cannot be measured (it takes too long, or more memory than there is), a
// search that goes on blindly may meet nothing that can. So the given configurations come next; where the
// default was measured nothing changes. They are asked for only then, as looking for them may take a while.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tuner/searcher.h"

namespace moetune {

class AfterFailedDefaultSearcher : public Searcher {
 public:
  AfterFailedDefaultSearcher(Configuration default_configuration,
                             std::function<std::vector<Configuration>()> given,
                             std::unique_ptr<Searcher> then);
  std::optional<Configuration> ask() override;
  void tell(const Trial& trial) override;

 private:
  Configuration default_;
  std::function<std::vector<Configuration>()> given_;  // empty once they were asked for
  std::unique_ptr<Searcher> then_;
};

}  // namespace moetune
