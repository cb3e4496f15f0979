// A small invented run for the report tests: a default, two better trials, one failure.
#pragma once

#include "tuner/report/run_report.h"

namespace moetune {

inline Trial measured_trial(std::int64_t number, const std::string& top_k, double tpot_ms, double kl) {
  Trial trial;
  trial.number = number;
  trial.configuration.values = {{"top_k", top_k}, {"router", "cpu"}};
  trial.seconds = 2.0;
  trial.started = "2026-11-29T16:46:39Z";
  trial.metrics["tpot_ms"] = {.value = tpot_ms,
                              .low = tpot_ms * 0.98,
                              .high = tpot_ms * 1.02,
                              .p99 = {},
                              .n = 40,
                              .origin = Origin::measured,
                              .stopped = "interval narrow"};
  trial.metrics["kl_mean"] = {.value = kl,
                              .low = kl * 0.9,
                              .high = kl * 1.1,
                              .p99 = {},
                              .n = 4096,
                              .origin = Origin::measured,
                              .stopped = ""};
  trial.metrics["top1_agreement"] = {
      .value = 0.97, .low = {}, .high = {}, .p99 = {}, .n = 4096, .origin = Origin::measured, .stopped = ""};
  trial.metrics["device_bytes"] = {.value = 13.25 * 1048576.0,
                                   .low = {},
                                   .high = {},
                                   .p99 = {},
                                   .n = 1,
                                   .origin = Origin::predicted,
                                   .stopped = ""};
  return trial;
}

inline RunReport example_report() {
  RunReport report;
  report.run_path = "runs/example";
  report.request.model = "tiny-moe";
  report.request.model_hash = "0123abcd";
  report.request.workload = "chat";
  report.request.space = "default";
  report.request.searcher = "nsga2";
  report.request.gate = "int8";
  report.request.objectives = {"tpot_ms", "kl_mean"};
  report.request.command = {"moetune", "tune", "--model", "my models/tiny"};
  report.request.build = "0.1.0 abc";
  report.hardware = {{"device", "cpu"}, {"cpu_name", "Example | 9000"}};
  report.objectives = objectives_named("tpot_ms,kl_mean");
  report.trials = {measured_trial(0, "8", 3.0, 0.0001), measured_trial(1, "7", 2.5, 0.008),
                   measured_trial(2, "4", 1.5, 0.12)};
  Trial failed;
  failed.number = 3;
  failed.configuration.values = {{"top_k", "5"}, {"router", "cpu"}};
  failed.outcome = Outcome::crashed;
  failed.reason = "the worker was killed by SIGSEGV; last words: <b>bad</b> | pipe";
  report.trials.push_back(failed);
  report.front = {2, 1, 0};
  report.verdict = {.recommended = 1,
                    .reason = "Fastest that meets the int8 gate.",
                    .runner_up = 0,
                    .why_not_runner_up = "It is slower."};
  return report;
}

}  // namespace moetune
