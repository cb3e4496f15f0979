// Reading JSON that a person or a file gave us: every error names the place, what stands there and what is
// accepted. Start at parse_json(); JsonFields then takes an object apart field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace moetune {

// Parses one document. Unlike plain nlohmann it refuses a field given twice and nesting deeper than 64.
// where: the file, for messages. Throws InputError with line and column.
nlohmann::json parse_json(std::string_view text, const std::string& where);

// The same from a file of at most max_bytes. Throws InputError when it cannot be read.
nlohmann::json read_json_file(const std::string& file, std::int64_t max_bytes = std::int64_t{64} << 20);

// A value as it stands in messages: its JSON text, cut after 60 characters.
std::string shown(const nlohmann::json& value);

// The canonical text of a scalar, as `--set name=value` takes it: 0.25 -> "0.25", 1.0 -> "1", "int4" ->
// "int4". Throws InputError for anything but a text or a number.
std::string scalar_text(const nlohmann::json& value, const std::string& where);

// "0.50" -> "0.5", "1e1" -> "10"; a text that is not a JSON number stays as it is.
std::string canonical_number(const std::string& text);

// The reverse of scalar_text(): a number when the text is the canonical form of one, otherwise a string.
// scalar_text() gives the text back.
nlohmann::json scalar_json(const std::string& text);

// Fields of one object. Every getter throws InputError for a missing field, a wrong type or a value out of
// range; where problems are collected (problems.h) it notes that and gives a stand-in. The object must
// outlive the reader.
class JsonFields {
 public:
  // where: the place of the object ("space.json: parameters[0]")
  JsonFields(const nlohmann::json& object, std::string where);

  const std::string& where() const { return where_; }
  std::string place(std::string_view field) const;  // "space.json: parameters[0].name"

  bool has(std::string_view field) const;  // present and not null
  const nlohmann::json& required(std::string_view field) const;
  const nlohmann::json& array(std::string_view field) const;
  const nlohmann::json& object(std::string_view field) const;
  std::string text(std::string_view field) const;
  std::string text_or(std::string_view field, const std::string& otherwise) const;
  bool flag(std::string_view field) const;
  double number(std::string_view field) const;  // finite
  std::int64_t integer(std::string_view field, std::int64_t lowest, std::int64_t highest) const;
  std::uint64_t unsigned_integer(std::string_view field) const;  // the whole range: seeds

  // Throws InputError for a field that is not in the list.
  void only(const std::vector<std::string_view>& known) const;

 private:
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace moetune
