#include "tuner/export/table_fields.h"

#include "tuner/problems.h"

namespace moetune {

std::vector<std::string> texts_or_none(const JsonFields& fields, std::string_view field) {
  std::vector<std::string> texts;
  if (!fields.has(field)) return texts;
  for (const nlohmann::json& text : fields.array(field)) {
    if (!text.is_string())
      refuse(fields.place(field), shown(text), "a list of texts");
    else
      texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::map<std::string, std::string> text_map_or_none(const JsonFields& fields, std::string_view field) {
  std::map<std::string, std::string> texts;
  if (!fields.has(field)) return texts;
  for (const auto& [name, text] : fields.object(field).items()) {
    if (!text.is_string())
      refuse(fields.place(field) + "." + name, shown(text), "a text");
    else
      texts.emplace(name, text.get<std::string>());
  }
  return texts;
}

void for_each_object(const JsonFields& fields, std::string_view field,
                     const std::function<void(const JsonFields&)>& read) {
  std::size_t i = 0;
  for (const nlohmann::json& object : fields.array(field))
    read(JsonFields(object, fields.place(field) + "[" + std::to_string(i++) + "]"));
}

}  // namespace moetune
