// Fuzzes the reader of /metrics: any bytes give samples whose names are names.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tuner/serving/metrics_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const moetune::MetricSample& sample : moetune::metric_samples(text))
    if (sample.name.empty() || sample.name.find_first_of(" \n{}\"#") != std::string::npos) std::abort();
  const moetune::ServerLoad load = moetune::server_load(text);
  if (load.cache_use && !std::isfinite(*load.cache_use)) std::abort();
  return 0;
}
