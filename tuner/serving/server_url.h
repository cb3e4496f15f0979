// Where a server is: http://host:port, as a person types it. Start at server_url().
#pragma once

#include <string>

namespace moetune {

struct ServerUrl {
  std::string origin;  // "http://127.0.0.1:8000": scheme, host and port only
  std::string
      base_path;  // in front of every path: "" or "/prefix"; a trailing /v1 is cut off, as callers add it
  std::string text() const { return origin + base_path; }
};

// flag: the option it came from, for messages. Accepts http:// and https://, a host name, an IPv4 or a
// bracketed IPv6 address, an optional port and path. Throws InputError for anything else: no user and
// password (they would end up in profiles and logs), no query, no character that could end a header line.
ServerUrl server_url(const std::string& flag, const std::string& text);

}  // namespace moetune
