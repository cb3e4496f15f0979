#include "tuner/json_schema.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <stdexcept>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace moetune {
namespace {
// valijson's context is {"<root>", "[parameters]", "[0]", "[kind]"}.
std::string path_of(const std::vector<std::string>& context) {
  std::string path;
  for (std::size_t i = 1; i < context.size(); ++i) {
    std::string step = context[i];
    const bool is_name =
        step.size() > 2 &&
        !std::all_of(step.begin() + 1, step.end() - 1, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_name) step = (path.empty() ? "" : ".") + step.substr(1, step.size() - 2);
    path += step;
  }
  return path.empty() ? "document" : path;
}

// valijson reads every integer as a signed one: a seed above 2^63 would be negative. No schema of
// ours tells numbers up there apart.
nlohmann::json with_signed_integers(nlohmann::json value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return INT64_MAX;
  if (value.is_structured())
    for (nlohmann::json& item : value) item = with_signed_integers(std::move(item));
  return value;
}
}  // namespace

std::vector<std::string> schema_violations(const nlohmann::json& document, const nlohmann::json& schema) {
  valijson::Schema compiled;
  try {
    valijson::SchemaParser parser;
    parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(schema), compiled);
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("broken JSON Schema: ") + error.what());
  }
  // Strong types: in JSON Schema the text "1" is not the number 1.
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  valijson::ValidationResults results;
  const nlohmann::json plain = with_signed_integers(document);
  if (validator.validate(compiled, valijson::adapters::NlohmannJsonAdapter(plain), &results)) return {};
  std::vector<std::pair<std::size_t, std::string>> found;
  valijson::ValidationResults::Error error;
  while (results.popError(error))
    found.emplace_back(error.context.size(), path_of(error.context) + ": " + error.description);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> violations;
  violations.reserve(found.size());
  for (auto& [depth, text] : found) violations.push_back(std::move(text));
  return violations;
}

}  // namespace moetune
