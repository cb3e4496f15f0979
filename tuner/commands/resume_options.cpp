#include "tuner/commands/resume_options.h"

#include <array>
#include <string_view>

namespace moetune {
namespace {

struct FieldOption {
  std::string_view field;  // it, or what it is an object of
  std::string_view option;
};

// The first one that fits counts: parts of an object come before the object.
constexpr std::array field_options{FieldOption{"model", "--model"},
                                   FieldOption{"model_hash", "--model"},
                                   FieldOption{"workload", "--workload"},
                                   FieldOption{"space", "--space"},
                                   FieldOption{"space_hash", "--space"},
                                   FieldOption{"searcher", "--searcher"},
                                   FieldOption{"objectives", "--objective"},
                                   FieldOption{"seed", "--seed"},
                                   FieldOption{"gate", "--gate"},
                                   FieldOption{"conditions.workload.slo", "--slo"},
                                   FieldOption{"conditions.workload", "--workload"},
                                   FieldOption{"conditions.calibration", "--calibration"},
                                   FieldOption{"conditions.calibration_hash", "--calibration"},
                                   FieldOption{"conditions.device", "--device"},
                                   FieldOption{"conditions.threads", "--threads"},
                                   FieldOption{"conditions.device_memory_bytes", "--device-memory"},
                                   FieldOption{"conditions.latency_seconds", "--timing"},
                                   FieldOption{"conditions.usd_per_hour", "--usd-per-hour"},
                                   FieldOption{"conditions.injected_delay_ms", "--inject-delay"},
                                   FieldOption{"conditions.synthetic", "--synthetic"},
                                   FieldOption{"device", "--device"},
                                   FieldOption{"gpu_count", "--gpus"},
                                   FieldOption{"cpu_cores", "--threads"}};

bool is_part_of(std::string_view field, std::string_view object) {
  return field.starts_with(object) && (field.size() == object.size() || field[object.size()] == '.');
}

}  // namespace

std::string resume_option(const std::string& field) {
  for (const FieldOption& known : field_options)
    if (is_part_of(field, known.field)) return std::string(known.option);
  return "";
}

}  // namespace moetune
