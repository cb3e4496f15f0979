// moetune list spaces, workloads, knobs, metrics and searchers: what a search is made of.
#include <string>

#include <fmt/format.h>

#include "engine/data_files.h"
#include "engine/facts/knobs.h"
#include "engine/facts/workload.h"
#include "tuner/commands/listing.h"
#include "tuner/commands/study_space.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/metric_facts.h"
#include "tuner/searcher.h"

namespace moetune {
namespace {

std::string_view name_of(SwitchCost cost) {
  switch (cost) {
    case SwitchCost::none:
      return "nothing";
    case SwitchCost::graph:
      return "graph";
    case SwitchCost::cache:
      return "cache";
    case SwitchCost::weights:
      return "weights";
    case SwitchCost::process:
      return "process";
  }
  return "?";
}

}  // namespace

Listing list_spaces() {
  Listing listing{.table = {.headings = {"space", "knobs", "what for"}},
                  .when_empty = "no space comes with this build"};
  for (const std::string& name : space_names()) {
    const std::string file = search_spaces_folder() + "/" + name + ".json";
    const nlohmann::json space = read_json_file(file);
    const JsonFields fields(space, file);
    const std::string description = fields.text_or("description", "");
    const std::size_t knob_count = fields.array("parameters").size();
    listing.table.rows.push_back({name, std::to_string(knob_count), description});
    listing.document.push_back(
        {{"name", name}, {"file", file}, {"knobs", knob_count}, {"description", description}});
  }
  return listing;
}

Listing list_workloads() {
  Listing listing{
      .table = {
          .headings = {"workload", "prompt", "output", "sequences", "rounds", "default SLO"},
          .alignment = {Align::left, Align::right, Align::right, Align::right, Align::right, Align::left}}};
  for (const std::string& name : workload_names()) {
    const Workload workload = workload_named(name);
    listing.table.rows.push_back({name, std::to_string(workload.prompt_tokens),
                                  std::to_string(workload.output_tokens), std::to_string(workload.sequences),
                                  std::to_string(workload.rounds),
                                  fmt::format("{} {:g} ms", workload.slo.metric, workload.slo.limit_ms)});
    listing.document.push_back(to_json_value(workload));
  }
  return listing;
}

Listing list_knobs() {
  Listing listing{.table = {.headings = {"knob", "switch costs", "what it is, and what it takes"}}};
  for (const Knob& knob : knobs()) {
    listing.table.rows.push_back({std::string(knob.name) + (knob.in_default_space ? " *" : ""),
                                  std::string(name_of(knob.switch_cost)),
                                  fmt::format("{}: {}", knob.meaning, knob.accepted)});
    listing.document.push_back({{"name", knob.name},
                                {"unit", knob.unit},
                                {"accepted", knob.accepted},
                                {"switch_cost", name_of(knob.switch_cost)},
                                {"changes_output", knob.changes_output},
                                {"default_space", knob.in_default_space},
                                {"meaning", knob.meaning}});
  }
  listing.remarks = "* in the default space";
  return listing;
}

Listing list_metrics() {
  Listing listing{.table = {.headings = {"metric", "better", "what it is"}}};
  for (const MetricFacts& metric : known_metrics()) {
    const char* better = metric.direction == Direction::smaller_is_better  ? "smaller"
                         : metric.direction == Direction::larger_is_better ? "larger"
                                                                           : "-";
    listing.table.rows.push_back({std::string(metric.name), better, std::string(metric.meaning)});
    listing.document.push_back(
        {{"name", metric.name}, {"unit", metric.unit}, {"better", better}, {"meaning", metric.meaning}});
  }
  return listing;
}

Listing list_searchers() {
  Listing listing{.table = {.headings = {"searcher", "what it tries"}}};
  for (const std::string& name : searcher_names()) {
    listing.table.rows.push_back({name, std::string(searcher_words(name))});
    listing.document.push_back({{"name", name}, {"what_it_tries", searcher_words(name)}});
  }
  return listing;
}

}  // namespace moetune
