// A server on a free port of the loopback interface whose every byte and every close a test decides: for what
// an HTTP library would never do wrong by itself.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace moetune {

class RawServer {
 public:
  class Connection {
   public:
    explicit Connection(int socket) : socket_(socket) {}
    void read_request();  // until the blank line after its headers, or the end
    void send(const std::string& bytes);
    void wait_for_more();  // until the client sends another byte (left unread) or closes
   private:
    int socket_;
  };

  // Without a handler connections are taken by the system and never looked at.
  RawServer();
  // handle serves one connection at a time, in the server's own thread; the connection is closed after it.
  explicit RawServer(std::function<void(Connection&)> handle);
  ~RawServer();
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  const std::string& url() const { return url_; }

 private:
  int socket_;
  std::string url_;
  std::jthread thread_;
};

}  // namespace moetune
