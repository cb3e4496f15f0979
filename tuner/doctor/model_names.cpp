#include "tuner/doctor/model_names.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

// What people change without noticing: case, folders in front, and what separates words.
std::string plain(std::string name) {
  name = name.substr(name.find_last_of('/') + 1);
  std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0; });
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

// A server's words may hold anything.
std::string shown_list(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + printable(name);
  return list;
}

}  // namespace

std::vector<std::string> served_models(const std::string& body, const std::string& where) {
  const nlohmann::json document = parse_json(body, where);
  const JsonFields fields(document, where);
  std::vector<std::string> names;
  const nlohmann::json& list = fields.array("data");
  for (std::size_t i = 0; i < list.size(); ++i)
    names.push_back(JsonFields(list[i], fmt::format("{}: data[{}]", where, i)).text("id"));
  return names;
}

Finding judge_model_name(const std::string& model, const std::vector<std::string>& served,
                         const std::string& url) {
  const std::string all = served.empty() ? "no model at all" : shown_list(served);
  if (model.empty())
    return {"models_served", Severity::remark, fmt::format("{} serves {}", url, all), "", ""};
  if (std::ranges::find(served, model) != served.end())
    return {"model_served", Severity::remark, fmt::format("{} serves {}", url, model), "", ""};
  const auto alike =
      std::ranges::find_if(served, [&](const std::string& name) { return plain(name) == plain(model); });
  if (alike != served.end())
    return {"model_renamed", Severity::warning,
            fmt::format("{} serves '{}', not '{}'", url, printable(*alike), model),
            "every request is rejected: names are compared letter by letter",
            fmt::format("send \"model\": \"{}\", or start the server with --served-model-name {}",
                        printable(*alike), model)};
  return {"model_unknown", Severity::warning, fmt::format("{} serves {}, not '{}'", url, all, model),
          "every request is rejected",
          fmt::format("send one of the names above, or start the server with --served-model-name {}", model)};
}

}  // namespace moetune
