// The legal configurations as a table with a mark on those that were asked or told: what every searcher works
// on. A position is an index into LegalSet::ranks. Start at take() and nearest_open().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tuner/searcher.h"
#include "tuner/space_rules.h"

namespace moetune {

class SearchTable {
 public:
  explicit SearchTable(const SearcherInput& input);

  std::size_t size() const { return legal_.ranks.size(); }
  std::size_t open_count() const { return open_count_; }
  bool is_open(std::size_t position) const { return open_[position]; }
  void take(std::size_t position);

  const SearchSpace& space() const { return space_; }
  std::uint64_t rank(std::size_t position) const { return legal_.ranks[position]; }
  Levels levels(std::size_t position) const { return space_.levels_at(legal_.ranks[position]); }
  Configuration configuration(std::size_t position) const { return space_.at(legal_.ranks[position]); }

  // Inactive parameters are brought to their canonical value first. Empty: not a
  // legal configuration of this space.
  std::optional<std::size_t> find(Levels levels) const;
  std::optional<std::size_t> find(const Configuration& configuration) const;

  // The n-th open position, n < open_count().
  std::size_t open_position(std::size_t n) const;
  // The open position closest to the levels: an ordinal parameter counts its steps as a share of its range, a
  // categorical one 1 when it differs. Ties: the lowest. Precondition: open_count() > 0.
  std::size_t nearest_open(const Levels& levels) const;

  // For each parameter the levels that occur in a legal configuration, ascending.
  std::vector<std::vector<std::uint16_t>> occurring_levels() const;

 private:
  std::optional<std::size_t> position_of(std::uint64_t rank) const;

  const SearchSpace& space_;
  const LegalSet& legal_;
  SpaceRules rules_;
  std::vector<bool> open_;
  std::size_t open_count_;
};

}  // namespace moetune
