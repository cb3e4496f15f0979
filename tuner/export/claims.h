// What is said about servers and about the cost of experts, and what is known: reports/claims.json. Start at
// read_claims(); explain() gathers everything about one flag, from there and from the server tables.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tuner/export/server_table.h"

namespace moetune {

struct Claim {
  std::string id;
  std::vector<std::string> flags;  // that it is about
  std::string claim;
  std::string verdict;  // true, false, depends, not_testable, unchecked
  std::string fact;
  std::string source;  // empty: nobody has checked
};

// Throws InputError naming file and field.
std::vector<Claim> read_claims(const std::string& file);

// "--Max_num-seqs=4" -> "--max-num-seqs": one spelling of a flag for comparisons.
std::string plain_flag(const std::string& text);

struct FlagUse {
  std::string server;
  std::string flag;                   // as that server spells it
  std::vector<std::string> settings;  // that this program says with it
  std::vector<std::string> values;    // accepted ones, where that is a list
  std::string standing;               // accepted, removed, rejected, deprecated (-> what), short for --x
};

struct Explanation {
  std::string flag;
  std::string value;  // of "--kv-cache-dtype fp16"
  std::vector<Claim> claims;
  std::vector<FlagUse> uses;
  std::vector<std::string> incomplete;  // servers whose list of flags is not complete
};

// flag: with or without dashes, with a value behind '=' or a blank.
Explanation explain(const std::string& flag, const std::vector<Claim>& claims,
                    const std::vector<ServerTable>& tables);
std::string explanation_text(const Explanation& explanation);
nlohmann::json explanation_document(const Explanation& explanation);

}  // namespace moetune
