#include "tests/support/fake_server.h"

#include <stdexcept>
#include <thread>
#include <utility>

#include <httplib.h>

namespace moetune {

struct FakeServer::Parts {
  httplib::Server server;
  std::thread thread;
};

namespace {

httplib::Server::Handler handler_of(FakeServer::Route route) {
  return [route = std::move(route)](const httplib::Request& request, httplib::Response& response) {
    FakeServer::Answer answer = route(request.body, request.get_header_value("Authorization"));
    response.status = answer.status;
    response.set_chunked_content_provider(answer.type,
                                          [pieces = std::move(answer.pieces), next = std::size_t{0}](
                                              std::size_t, httplib::DataSink& sink) mutable {
                                            if (next == pieces.size()) {
                                              sink.done();
                                              return true;
                                            }
                                            const std::string& piece = pieces[next++];
                                            return sink.write(piece.data(), piece.size());
                                          });
  };
}

}  // namespace

FakeServer::FakeServer() : parts_(std::make_unique<Parts>()) {}

FakeServer::~FakeServer() {
  parts_->server.stop();
  if (parts_->thread.joinable()) parts_->thread.join();
}

void FakeServer::on_get(const std::string& path, Route route) {
  parts_->server.Get(path, handler_of(std::move(route)));
}
void FakeServer::on_post(const std::string& path, Route route) {
  parts_->server.Post(path, handler_of(std::move(route)));
}

std::string FakeServer::start() {
  const int port = parts_->server.bind_to_any_port("127.0.0.1");
  if (port <= 0) throw std::runtime_error("no free port on 127.0.0.1");
  parts_->thread = std::thread([this] { parts_->server.listen_after_bind(); });
  // The socket listens since bind_to_any_port: a client that comes before the thread runs waits in its queue.
  // But stop() before the thread runs would be lost.
  while (!parts_->server.is_running()) std::this_thread::yield();
  return "http://127.0.0.1:" + std::to_string(port);
}

}  // namespace moetune
