#include "tuner/serving/server_url.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "engine/facts/error.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

constexpr std::string_view letters_and_digits =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

bool consists_of(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [&](char c) {
    return letters_and_digits.find(c) != std::string_view::npos || more.find(c) != std::string_view::npos;
  });
}

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

// host, host:port, [address], [address]:port
bool is_authority(std::string_view text) {
  std::string_view port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos || close < 3 || !consists_of(text.substr(1, close - 1), ":.%"))
      return false;
    port = text.substr(close + 1);
  } else {
    const auto colon = text.find(':');
    const std::string_view host = text.substr(0, colon);
    if (host.empty() || !consists_of(host, "-._")) return false;
    if (colon != std::string_view::npos) port = text.substr(colon);
  }
  return port.empty() || (port.starts_with(':') && is_port(port.substr(1)));
}

}  // namespace

ServerUrl server_url(const std::string& flag, const std::string& text) {
  const auto refuse = [&] {
    throw InputError(flag, "'" + printable(text) + "'",
                     "http://HOST:PORT or https://HOST:PORT, a path may follow");
  };
  std::string_view rest = text;
  std::string scheme;
  for (const std::string_view known : {"http://", "https://"})
    if (rest.starts_with(known)) scheme = known;
  if (scheme.empty()) refuse();
  rest.remove_prefix(scheme.size());
  const auto slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  std::string_view path = slash == std::string_view::npos ? std::string_view{} : rest.substr(slash);
  if (!is_authority(authority) || !consists_of(path, "/-._~")) refuse();
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/v1")) path.remove_suffix(3);
  return {scheme + std::string(authority), std::string(path)};
}

}  // namespace moetune
