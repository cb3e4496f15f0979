#include "tuner/commands/disturbances.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace moetune {

std::vector<std::string> Disturbances::all() const {
  std::vector<std::string> texts = on_processors;
  texts.insert(texts.end(), on_gpu.begin(), on_gpu.end());
  texts.insert(texts.end(), arisen.begin(), arisen.end());
  return texts;
}

Disturbances disturbances_of(NeighbourWatch& watch) {
  Disturbances disturbances;
  disturbances.on_processors = watch.on_processors();
  disturbances.on_gpu = watch.newcomers_on_gpu();
  disturbances.arisen = watch.arisen_since();
  return disturbances;
}

std::vector<std::string> lines_about(const Disturbances& disturbances, const std::string& what_holds,
                                     const std::string& worthless) {
  std::vector<std::string> lines;
  if (!disturbances.on_processors.empty())
    lines.push_back(fmt::format(
        "moetune: other work ran beside it: {}. The times are not this machine's alone{}",
        fmt::join(disturbances.on_processors, ", "), what_holds.empty() ? "" : "; " + what_holds));
  if (!disturbances.on_gpu.empty())
    lines.push_back(fmt::format("moetune: {}{} came while it was measured", worthless,
                                fmt::join(disturbances.on_gpu, ", ")));
  if (!disturbances.arisen.empty())
    lines.push_back(fmt::format("moetune: {}while it was measured this arose: {}", worthless,
                                fmt::join(disturbances.arisen, "; ")));
  return lines;
}

void add_to(nlohmann::json& document, const Disturbances& disturbances) {
  document["other_work"] = disturbances.on_processors;
  for (const std::string& other : disturbances.on_gpu) document["other_work"].push_back(other);
  document["arisen"] = disturbances.arisen;
}

}  // namespace moetune
