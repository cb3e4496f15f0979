// Requests to a server that somebody else started: its metrics, its models, its streamed answers. cpp-httplib
// stays behind this header (it costs every file that includes it seconds of compile time).
//
// Every request has a connection of its own: llama-server promises to keep one and yet closes it after every
// streamed answer, a moment after the answer's end; a request sent in that moment is lost. A connection kept
// idle also holds one of the few threads of such a server. What the server does wrong is a value
// (HttpReply::failure), as every request of a measurement may fail on its own. Use one client per thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tuner/serving/server_url.h"

namespace moetune {

struct HttpLimits {
  double connect_seconds = 10.0;
  double silence_seconds = 300.0;  // between two pieces of an answer: a long prompt is silent for long
  std::size_t body_bytes = std::size_t{16} << 20;  // a longer answer is a failure
};

struct HttpReply {
  int status = 0;       // 0: no answer
  std::string body;     // empty where the pieces went to a receiver
  std::string failure;  // in words, one printable line; empty: an answer with status 200 .. 299 arrived whole
  bool ok() const { return failure.empty(); }
};

class HttpClient {
 public:
  // token: sent as "Authorization: Bearer ..." unless empty; never part of any message. Throws InputError for
  // one with characters that do not belong in a header.
  explicit HttpClient(const ServerUrl& url, const std::string& token = "", const HttpLimits& limits = {});
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  const ServerUrl& url() const;

  // path: begins with '/', is appended to the URL's own.
  HttpReply get(const std::string& path);
  // Sends JSON. receive gets every piece of the body as it arrives and says whether to go on; the answer to
  // an error status is not passed on but becomes part of the failure.
  HttpReply post(const std::string& path, const std::string& json,
                 const std::function<bool(std::string_view piece)>& receive);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace moetune
