// Typed reading of one JSON object of a config.json: every refusal names file, field, value and what is
// accepted. A field that is null counts as absent, as in transformers.
#pragma once

#include <initializer_list>
#include <string>

#include <nlohmann/json.hpp>

namespace moetune {

class ConfigFields {
 public:
  // object must outlive this. where: path of the file, with the enclosing field when there is one.
  ConfigFields(const nlohmann::json& object, std::string where);

  const std::string& where() const { return where_; }
  bool has(const std::string& name) const;
  bool mentions(const std::string& name) const { return object_.contains(name); }  // null counts
  const nlohmann::json& at(const std::string& name) const;                         // precondition: has(name)

  // Required: throws InputError when the field is absent.
  int integer(const std::string& name, int smallest, int largest) const;
  double number(const std::string& name, double smallest, double largest) const;
  std::string text(const std::string& name) const;

  // Optional, with the value that transformers takes when the field is absent.
  int integer_or(const std::string& name, int absent, int smallest, int largest) const;
  double number_or(const std::string& name, double absent, double smallest, double largest) const;
  bool flag_or(const std::string& name, bool absent) const;

  // The one of several spellings of a field that is there; the first when none is. Throws when two differ.
  std::string spelling(std::initializer_list<const char*> names) const;

  // Throws InputError for this field.
  [[noreturn]] void refuse(const std::string& name, const std::string& found,
                           const std::string& accepted) const;
  // Throws unless the field is absent or equals the only value we can run.
  void accept_only(const std::string& name, const nlohmann::json& value, const std::string& why) const;

 private:
  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace moetune
