#include "tuner/serving/http_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>
#include <httplib.h>

#include "engine/facts/error.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

constexpr std::size_t shown_of_an_error = 300;  // characters of what a server says about an error

std::chrono::microseconds microseconds(double seconds) {
  return std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

using Clock = std::chrono::steady_clock;

// What had come of an answer when it ended.
struct Arrived {
  int status = 0;  // 0: not even the headers
  std::size_t bytes = 0;
  Clock::duration silent{};
};

// The library says Read for a connection that broke and for one that stayed silent for too long.
std::string words_of(httplib::Error error, const Arrived& arrived, const HttpLimits& limits) {
  switch (error) {
    case httplib::Error::Connection:
      return "nothing answers";
    case httplib::Error::ConnectionTimeout:
      return fmt::format("nothing answers within {:g} s", limits.connect_seconds);
    case httplib::Error::Read:
      if (arrived.silent >= microseconds(limits.silence_seconds))
        return fmt::format("nothing came for {:g} s", limits.silence_seconds);
      if (arrived.status == 0) return "the server closed the connection before any answer came";
      return fmt::format("the answer ended early: status {} and {} bytes had come", arrived.status,
                         arrived.bytes);
    case httplib::Error::Write:
      return "the request could not be sent";
    case httplib::Error::Canceled:
      return "given up";
    default:
      return httplib::to_string(error) + " error";
  }
}

}  // namespace

struct HttpClient::Parts {
  ServerUrl url;
  HttpLimits limits;
  httplib::Client client;

  Parts(ServerUrl the_url, const HttpLimits& the_limits)
      : url(std::move(the_url)), limits(the_limits), client(url.origin) {}

  HttpReply send(httplib::Request request, const std::function<bool(std::string_view)>& receive);
};

HttpReply HttpClient::Parts::send(httplib::Request request,
                                  const std::function<bool(std::string_view)>& receive) {
  HttpReply reply;
  std::size_t bytes = 0;
  bool too_long = false;
  bool is_good = false;
  Clock::time_point heard = Clock::now();
  request.path = url.base_path + request.path;
  request.set_header("Accept-Encoding",
                     "identity");  // a compressed stream arrives in other pieces than it was sent in
  request.response_handler = [&](const httplib::Response& response) {
    heard = Clock::now();
    reply.status = response.status;
    is_good = response.status >= 200 && response.status < 300;
    return true;
  };
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    heard = Clock::now();
    bytes += size;
    too_long = bytes > limits.body_bytes;
    if (too_long) return false;
    if (is_good && receive) return receive(std::string_view(data, size));
    reply.body.append(data, size);
    return true;
  };
  const httplib::Result result = client.send(request);
  const std::string what = fmt::format("{} {}{}", request.method, url.origin, request.path);
  if (too_long)
    reply.failure = fmt::format("{}: the answer is longer than {} bytes", what, limits.body_bytes);
  else if (!result)
    reply.failure = fmt::format(
        "{}: {}", what, words_of(result.error(), {reply.status, bytes, Clock::now() - heard}, limits));
  else if (!is_good)
    reply.failure =
        fmt::format("{}: status {}: {}", what, reply.status, fitted(reply.body, shown_of_an_error));
  return reply;
}

HttpClient::HttpClient(const ServerUrl& url, const std::string& token, const HttpLimits& limits)
    : parts_(std::make_unique<Parts>(url, limits)) {
  httplib::Client& client = parts_->client;
  client.set_connection_timeout(microseconds(limits.connect_seconds));
  client.set_read_timeout(microseconds(limits.silence_seconds));
  client.set_write_timeout(microseconds(limits.silence_seconds));
  client.set_keep_alive(false);
  client.set_tcp_nodelay(true);
  if (token.empty()) return;
  if (std::ranges::any_of(token, [](unsigned char c) { return c <= 0x20 || c >= 0x7f; }))
    throw InputError("API key", "a character that no header may hold", "printable ASCII without blanks");
  client.set_bearer_token_auth(token.c_str());
}

HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;

const ServerUrl& HttpClient::url() const { return parts_->url; }

HttpReply HttpClient::get(const std::string& path) {
  httplib::Request request;
  request.method = "GET";
  request.path = path;
  return parts_->send(std::move(request), {});
}

HttpReply HttpClient::post(const std::string& path, const std::string& json,
                           const std::function<bool(std::string_view piece)>& receive) {
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.body = json;
  request.set_header("Content-Type", "application/json");
  return parts_->send(std::move(request), receive);
}

}  // namespace moetune
