#include "tuner/commands/tax_limit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace moetune {
namespace {

double tax_ms(const Breakdown& token) { return token.tax_ns() / 1e6; }

bool is_under(const Breakdown& token) { return tax_ms(token) < most_tax_ms; }

// The slowest tokens, where they were told apart.
const Breakdown* slowest_of(const PhaseTax& decode) {
  return decode.slowest && decode.slowest->refused.empty() ? &*decode.slowest : nullptr;
}

}  // namespace

std::string tax_limit_text(const PhaseTax& decode) {
  if (!decode.typical.refused.empty()) return "";
  std::string text =
      fmt::format("The tax {} under {:g} ms per token: {:.4g} ms",
                  is_under(decode.typical) ? "stays" : "does NOT stay", most_tax_ms, tax_ms(decode.typical));
  if (const Breakdown* slowest = slowest_of(decode))
    text += fmt::format(", in the slowest hundredth {:.4g} ms{}", tax_ms(*slowest),
                        is_under(decode.typical) == is_under(*slowest) ? ""
                        : is_under(*slowest)                           ? ", which is under it"
                                                                       : ", which is NOT");
  return text + ".";
}

nlohmann::json tax_limit_json(const PhaseTax& decode) {
  if (!decode.typical.refused.empty()) return nullptr;
  nlohmann::json object = {{"limit_ms", most_tax_ms}, {"is_under", is_under(decode.typical)}};
  if (const Breakdown* slowest = slowest_of(decode)) object["is_under_when_slowest"] = is_under(*slowest);
  return object;
}

}  // namespace moetune
