// "Did you mean": the accepted word that a mistyped one is closest to.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace moetune {

// Fewest insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
int edit_distance(std::string_view a, std::string_view b);

// The closest accepted word; empty when none is close (more than a third of its letters differ).
std::string nearest(std::string_view word, std::span<const std::string> accepted);

}  // namespace moetune
