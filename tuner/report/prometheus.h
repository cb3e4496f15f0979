// Metrics in the text format that Prometheus reads (exposition format 0.0.4), for its node exporter's
// textfile collector. Start at profile_metrics(); PrometheusText is what any other writer uses.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/facts/launch_profile.h"

namespace moetune {

// Families in the order in which they were first named, each with one HELP and TYPE line, as the format
// demands.
class PrometheusText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // A gauge. name: [a-zA-Z_:][a-zA-Z0-9_:]*, with the unit in it; a label's name likewise. Values and help
  // may hold anything: they are escaped. help: of the family, taken from its first sample. Throws
  // std::invalid_argument for a name that is none, and for a second sample of the same name and labels.
  void add(std::string_view name, std::string_view help, const Labels& labels, double value);

  std::string text() const;

 private:
  struct Family {
    std::string name;
    std::string help;
    std::map<std::string, double> samples;  // labels as text -> value
    std::vector<std::string> order;
  };
  std::vector<Family> families_;
};

// What a profile recommends and what it rests on: moetune_<metric> with bound="value|low|high|p99" for the
// recommended and the default configuration, moetune_profile_info with the names. model, workload, device and
// server-independent facts are labels.
std::string profile_metrics(const LaunchProfile& profile);

}  // namespace moetune
