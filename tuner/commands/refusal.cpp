#include "tuner/commands/refusal.h"

#include <nlohmann/json.hpp>

namespace moetune {

nlohmann::json refusal_document(ExitCode code, const std::exception& error) {
  nlohmann::json document = {
      {"error", error.what()}, {"exit_code", static_cast<int>(code)}, {"missing_bytes", nullptr}};
  if (const auto* misfit = dynamic_cast<const DoesNotFit*>(&error))
    document["missing_bytes"] = misfit->missing_bytes();
  return document;
}

}  // namespace moetune
