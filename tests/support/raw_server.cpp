#include "tests/support/raw_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace moetune {

void RawServer::Connection::read_request() {
  std::string read;
  std::array<char, 1024> piece{};
  while (read.find("\r\n\r\n") == std::string::npos) {
    const ssize_t size = ::recv(socket_, piece.data(), piece.size(), 0);
    if (size <= 0) return;
    read.append(piece.data(), static_cast<std::size_t>(size));
  }
}

void RawServer::Connection::send(const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t size = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) return;
    sent += static_cast<std::size_t>(size);
  }
}

void RawServer::Connection::wait_for_more() {
  char byte = 0;
  ::recv(socket_, &byte, 1, MSG_PEEK);
}

RawServer::RawServer() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket_, any, size) != 0 || ::listen(socket_, 4) != 0 || ::getsockname(socket_, any, &size) != 0)
    throw std::runtime_error("no socket on 127.0.0.1");
  url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

RawServer::RawServer(std::function<void(Connection&)> handle) : RawServer() {
  thread_ = std::jthread([socket = socket_, handle = std::move(handle)] {
    for (int taken = ::accept(socket, nullptr, nullptr); taken >= 0;
         taken = ::accept(socket, nullptr, nullptr)) {
      Connection connection(taken);
      handle(connection);
      ::close(taken);
    }
  });
}

RawServer::~RawServer() {
  ::shutdown(socket_, SHUT_RDWR);  // ends accept()
  if (thread_.joinable()) thread_.join();
  ::close(socket_);
}

}  // namespace moetune
