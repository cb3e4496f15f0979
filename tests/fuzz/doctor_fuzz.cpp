// Any text as a saved box, as a server's list of models and as one of the kernel's files: either InputError,
// or findings that say something.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/facts/error.h"
#include "tuner/doctor/box_json.h"
#include "tuner/doctor/complaints.h"
#include "tuner/doctor/model_names.h"
#include "tuner/json_fields.h"
#include "tuner/named_numbers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const moetune::BoxFacts box = moetune::box_from_json(moetune::parse_json(text, "input"), "input");
    const auto findings = moetune::findings_of(box);
    for (const moetune::Finding& finding : findings)
      if (finding.what.empty() || finding.consequence.empty() || finding.remedy.empty()) std::abort();
    if (moetune::answers_of(box, findings).size() != 4) std::abort();
  } catch (const moetune::InputError&) {
  }
  try {
    const auto names = moetune::served_models(std::string(text), "input");
    if (moetune::judge_model_name("name", names, "url").what.empty()) std::abort();
  } catch (const moetune::InputError&) {
  }
  if (moetune::named_numbers(text).contains("")) std::abort();
  return 0;
}
