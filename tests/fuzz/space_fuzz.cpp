// Fuzzes the reader of search spaces: any bytes give a space or an InputError. A space that is small enough
// is then enumerated, and every rank must come back. Read on after the first mistake, as validate does, there
// is one exactly where the plain reading ended.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/problems.h"
#include "tuner/search_space.h"

namespace {
constexpr std::uint64_t largest_checked = 2000;

void known(const std::string& name, const std::string& value) {
  if (name == "unknown" || value == "illegal") throw moetune::InputError(name, value, "anything else");
}

// abort() rather than assert(): a release build must find it too.
void insist(bool holds) {
  if (!holds) std::abort();
}

moetune::SearchSpace read(std::string_view text) {
  return moetune::search_space_from_json(moetune::parse_json(text, "space.json"), "space.json", known,
                                         {{"native", 8}, {"cores", 6}, {"zero", 0}, {"huge", INT64_MAX}});
}

void check(const moetune::SearchSpace& space) {
  insist(space.hash().size() == 16);
  if (space.declared_size() > largest_checked) return;
  for (std::uint64_t rank = 0; rank < space.declared_size(); ++rank)
    insist(space.rank_of(space.at(rank)) == rank);
  try {
    const moetune::LegalSet legal = moetune::legal_configurations(space, {});
    for (const std::uint64_t rank : legal.ranks) {
      insist(!space.objection(space.at(rank)));
      insist(space.find(space.at(rank)) == rank);
    }
  } catch (const moetune::NoFeasibleConfiguration&) {
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  bool is_good = true;
  try {
    check(read(text));
  } catch (const moetune::InputError&) {
    is_good = false;
  }
  const moetune::ProblemList problems;
  moetune::attempt([&] { read(text); });
  insist(problems.messages().empty() == is_good);
  return 0;
}
