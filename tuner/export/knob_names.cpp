#include "tuner/export/knob_names.h"

#include <algorithm>

#include "engine/facts/error.h"
#include "tuner/export/table_fields.h"
#include "tuner/json_fields.h"

namespace moetune {
namespace {

KnobName knob_name_from(const JsonFields& fields) {
  fields.only({"knob", "setting", "unchanged", "unchanged_note", "decides_memory", "matters_with", "none",
               "nearest", "cost"});
  return {.knob = fields.text("knob"),
          .setting = fields.text("setting"),
          .unchanged = texts_or_none(fields, "unchanged"),
          .unchanged_note = fields.text_or("unchanged_note", ""),
          .decides_memory = fields.has("decides_memory") && fields.flag("decides_memory"),
          .matters_with = fields.text_or("matters_with", ""),
          .none = fields.text_or("none", ""),
          .nearest = fields.text_or("nearest", ""),
          .cost = fields.text_or("cost", "")};
}

TopKKey family_from(const JsonFields& fields) {
  fields.only({"family", "classes", "key", "nesting", "gguf", "note"});
  return {.family = fields.text("family"),
          .classes = texts_or_none(fields, "classes"),
          .key = fields.text("key"),
          .nesting = fields.text_or("nesting", ""),
          .gguf = fields.text_or("gguf", ""),
          .note = fields.text_or("note", "")};
}

}  // namespace

const KnobName* KnobNames::find(std::string_view either_spelling) const {
  const auto found = std::ranges::find_if(knobs, [&](const KnobName& name) {
    return name.knob == either_spelling || name.setting == either_spelling;
  });
  return found == knobs.end() ? nullptr : &*found;
}

const KnobName* KnobNames::of_setting(std::string_view setting) const {
  const auto found = std::ranges::find(knobs, setting, &KnobName::setting);
  return found == knobs.end() ? nullptr : &*found;
}

const TopKKey* KnobNames::family_of(std::string_view architecture) const {
  const auto found = std::ranges::find_if(families, [&](const TopKKey& family) {
    return std::ranges::find(family.classes, architecture) != family.classes.end();
  });
  return found == families.end() ? nullptr : &*found;
}

KnobNames read_knob_names(const std::string& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonFields fields(document, file);
  fields.only({"schema", "source", "knobs", "families"});
  fields.integer("schema", 1, 1);
  KnobNames names;
  names.source = fields.text("source");
  for_each_object(fields, "knobs",
                  [&](const JsonFields& knob) { names.knobs.push_back(knob_name_from(knob)); });
  for_each_object(fields, "families",
                  [&](const JsonFields& family) { names.families.push_back(family_from(family)); });
  return names;
}

}  // namespace moetune
