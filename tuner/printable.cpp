#include "tuner/printable.h"

#include <cstdint>

namespace moetune {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

struct Character {
  std::size_t bytes = 1;
  bool valid = false;
  bool control = false;  // C0, DEL, C1, line and paragraph separators, direction overrides
};

// The UTF-8 character at the start of the text (RFC 3629: no overlong forms, no surrogates, nothing above
// U+10FFFF).
Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {1, true, lead < 0x20 || lead == 0x7F};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 0;
  if (length == 0 || text.size() < length) return {};
  std::uint32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return {};
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  const bool control = code < 0xA0 || (code >= 0x200E && code <= 0x200F) ||
                       (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return {length, true, control};
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!character.valid) {
      result += '?';
    } else if (character.control) {
      result += ' ';
    } else {
      result += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  return result;
}

std::string printable_lines(std::string_view text) {
  std::string result;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    result += printable(text.substr(0, end)) + "\n";
    text.remove_prefix(end + 1);
  }
  return result + printable(text);
}

std::size_t character_count(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += is_continuation(byte) ? 0 : 1;
  return count;
}

std::string fitted(std::string_view text, std::size_t columns) {
  std::string line = printable(text);
  if (character_count(line) <= columns) return line;
  const std::size_t kept = columns > 3 ? columns - 3 : 0;
  std::size_t end = 0;
  for (std::size_t count = 0; end < line.size(); ++end)
    if (!is_continuation(line[end]) && count++ == kept) break;
  return line.substr(0, end) + std::string("...").substr(0, columns);
}

}  // namespace moetune
