// Which options take a word of 'moetune list KIND', so that shells can offer those words while one types.
#pragma once

#include <string>

namespace moetune {

struct ListedValues {
  std::string kind;    // "models": of 'moetune list models --names'; empty: no such list
  std::string suffix;  // what follows each name: "=" where a value does
};

// name: "--model", or "PROFILE" for a word by its place; type: as --help shows it. The same name means
// something else in another command (the --model of doctor is what a server calls its own), and the type
// tells them apart.
ListedValues listed_values(const std::string& name, const std::string& type);

}  // namespace moetune
