// An HTTP server on a free port of the loopback interface, in a thread of its own: what a client does with it
// is decided by the routes a test gives it, never by time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace moetune {

class FakeServer {
 public:
  struct Answer {
    int status = 200;
    std::string type = "application/json";
    std::vector<std::string> pieces;  // each is sent as a chunk of its own
  };
  using Route = std::function<Answer(const std::string& body, const std::string& authorization)>;

  FakeServer();
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  void on_get(const std::string& path, Route route);
  void on_post(const std::string& path, Route route);
  std::string start();  // "http://127.0.0.1:PORT"; routes are given before

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace moetune
