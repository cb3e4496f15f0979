#include "tuner/report/prometheus.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include <fmt/core.h>

#include "tuner/metric_facts.h"

namespace moetune {
namespace {

bool is_name(std::string_view text, bool colon) {
  if (text.empty() || (text.front() >= '0' && text.front() <= '9')) return false;
  return std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (colon && c == ':');
  });
}

// Within a label's value also quotes; a line end would end the sample.
std::string escaped(std::string_view text, bool quotes) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\\\";
    else if (c == '\n')
      result += "\\n";
    else if (c == '"' && quotes)
      result += "\\\"";
    else
      result += c;
  }
  return result;
}

std::string labels_text(const PrometheusText::Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    if (!is_name(name, false)) throw std::invalid_argument("'" + name + "' is no label name");
    text += (text.empty() ? "" : ",") + name + "=\"" + escaped(value, true) + "\"";
  }
  return text.empty() ? text : "{" + text + "}";
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

void add_point(PrometheusText& out, const PrometheusText::Labels& labels, const std::string& role,
               const ProfilePoint& point) {
  for (const Evidence& evidence : point.evidence) {
    const MetricFacts* const facts = find_metric(evidence.metric);
    const std::string help = facts == nullptr ? evidence.metric : std::string(facts->meaning);
    const auto add = [&](const char* bound, std::optional<double> value) {
      if (!value) return;
      PrometheusText::Labels all = labels;
      all.insert(all.end(), {{"configuration", role}, {"origin", evidence.origin}, {"bound", bound}});
      out.add("moetune_" + evidence.metric, help + " (low, high: 95 % interval)", all, *value);
    };
    add("value", evidence.value);
    add("low", evidence.low);
    add("high", evidence.high);
    add("p99", evidence.p99);
  }
}

}  // namespace

void PrometheusText::add(std::string_view name, std::string_view help, const Labels& labels, double value) {
  if (!is_name(name, true)) throw std::invalid_argument("'" + std::string(name) + "' is no metric name");
  auto family = std::ranges::find(families_, name, &Family::name);
  if (family == families_.end())
    family = families_.insert(families_.end(), {std::string(name), std::string(help), {}, {}});
  const std::string key = labels_text(labels);
  if (!family->samples.emplace(key, value).second)
    throw std::invalid_argument(std::string(name) + key + " is there already");
  family->order.push_back(key);
}

std::string PrometheusText::text() const {
  std::string text;
  for (const Family& family : families_) {
    text +=
        fmt::format("# HELP {} {}\n# TYPE {} gauge\n", family.name, escaped(family.help, false), family.name);
    for (const std::string& key : family.order)
      text += fmt::format("{}{} {}\n", family.name, key, number(family.samples.at(key)));
  }
  return text;
}

std::string profile_metrics(const LaunchProfile& profile) {
  PrometheusText out;
  const PrometheusText::Labels labels{
      {"model", profile.model}, {"workload", profile.workload.name}, {"device", profile.hardware.device}};
  PrometheusText::Labels info = labels;
  info.insert(info.end(), {{"model_hash", profile.model_hash},
                           {"gate", profile.gate},
                           {"build", profile.hardware.build},
                           {"synthetic_weights", profile.synthetic_weights ? "true" : "false"}});
  for (const auto& [knob, value] : profile.recommended.configuration)
    info.emplace_back("knob_" + knob, value);
  out.add("moetune_profile_info", "What the profile is about, always 1", info, 1.0);
  add_point(out, labels, "recommended", profile.recommended);
  if (profile.default_point) add_point(out, labels, "default", *profile.default_point);
  return out.text();
}

}  // namespace moetune
