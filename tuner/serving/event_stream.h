// Server-sent events (text/event-stream, WHATWG HTML ch. 9.2) as they arrive in pieces of any size. Start at
// EventStream::feed().
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace moetune {

class EventStream {
 public:
  static constexpr std::size_t longest_event = std::size_t{1}
                                               << 20;  // bytes; a longer one is a fault of the server

  // on_event gets the data of each event as soon as its blank line has come; its lines are joined by line
  // ends. Other fields and comments are passed over. False: an event is too long, and nothing more will be
  // read.
  bool feed(std::string_view piece, const std::function<void(const std::string& data)>& on_event);

 private:
  void take_line(std::string_view line, const std::function<void(const std::string& data)>& on_event);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  // a line feed that follows belongs to it
  bool failed_ = false;
};

}  // namespace moetune
