#include "tuner/commands/op_results.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/facts/knobs.h"

namespace moetune {
namespace {

std::vector<std::string> row_of(const OpTiming& timing, const OpRates& rates) {
  if (timing.microseconds.empty())
    return {timing.op, std::to_string(timing.tokens), "not timed", "", "", "", "", ""};
  const OpShares shares = shares_of(timing, rates);
  return {timing.op,
          std::to_string(timing.tokens),
          fmt::format("{:.2f}", shares.microseconds),
          shares.interval ? fmt::format("{:.2f} - {:.2f}", shares.interval->low, shares.interval->high) : "",
          fmt::format("{:.2f}", 1e-6 * timing.cost.bytes),
          is_in_cache(shares) ? "in cache" : fmt::format("{:.1f}", 100.0 * shares.read_share),
          shares.tensor_share ? fmt::format("{:.1f}", 100.0 * *shares.tensor_share) : "",
          fmt::format("{}{}", timing.layers, timing.is_flushed ? " *" : "")};
}

nlohmann::json to_json(const OpTiming& timing, const OpRates& rates) {
  if (timing.microseconds.empty())
    return {{"op", timing.op}, {"tokens", timing.tokens}, {"microseconds", nullptr}, {"n", 0}};
  const OpShares shares = shares_of(timing, rates);
  nlohmann::json object = {
      {"op", timing.op},
      {"tokens", timing.tokens},
      {"microseconds", shares.microseconds},
      {"low", nullptr},
      {"high", nullptr},
      {"n", timing.microseconds.size()},
      {"bytes", timing.cost.bytes},
      {"flops", timing.cost.flops},
      {"read_share", is_in_cache(shares) ? nlohmann::json() : nlohmann::json(shares.read_share)},
      {"in_cache", is_in_cache(shares)},
      {"tensor_share", nullptr},
      {"distinct_layers", timing.layers},
      {"caches_emptied", timing.is_flushed},
      {"experts_touched", timing.experts_touched},
      {"dense_products", {{"own", timing.dense.own}, {"cublas", timing.dense.cublas}}}};
  if (shares.interval) {
    object["low"] = shares.interval->low;
    object["high"] = shares.interval->high;
  }
  if (shares.tensor_share) object["tensor_share"] = *shares.tensor_share;
  return object;
}

}  // namespace

Table op_table(const OpMeasurement& found) {
  Table table{.headings = {"op", "tokens", "us", "95 % interval", "MB", "% read", "% tensor", "layers"},
              .alignment = {Align::left, Align::right, Align::right, Align::left, Align::right, Align::right,
                            Align::right, Align::right},
              .rows = {}};
  for (const OpTiming& timing : found.timings) table.rows.push_back(row_of(timing, found.rates));
  return table;
}

nlohmann::json op_document(const OpMeasurement& found, const std::vector<std::string>& notes) {
  nlohmann::json knobs_set = nlohmann::json::object();
  for (const Knob& knob : knobs()) knobs_set[std::string(knob.name)] = knob.get(found.engine);
  nlohmann::json results = nlohmann::json::array();
  for (const OpTiming& timing : found.timings) results.push_back(to_json(timing, found.rates));
  return {{"model", found.model.name},
          {"model_hash", found.model.content_hash},
          {"device", found.where},
          {"driver", found.driver},
          {"context", found.context},
          {"is_prompt", found.is_prompt},
          {"seed", found.seed},
          {"knobs", knobs_set},
          {"read_gb_per_s", found.rates.read_gb_per_s},
          {"tensor_tflops", found.rates.tensor_flops > 0.0 ? nlohmann::json(1e-12 * found.rates.tensor_flops)
                                                           : nlohmann::json()},
          {"results", results},
          {"notes", notes}};
}

}  // namespace moetune
