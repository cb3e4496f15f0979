#include "tuner/serving/event_stream.h"

namespace moetune {

bool EventStream::feed(std::string_view piece, const std::function<void(const std::string& data)>& on_event) {
  for (const char c : piece) {
    if (failed_) return false;
    if (c == '\n' && after_return_) {
      after_return_ = false;
      continue;
    }
    after_return_ = c == '\r';
    if (c != '\n' && c != '\r') {
      line_ += c;
      failed_ = line_.size() + data_.size() > longest_event;
      continue;
    }
    const std::string line = std::move(line_);
    line_.clear();
    take_line(line, on_event);
  }
  return !failed_;
}

void EventStream::take_line(std::string_view line,
                            const std::function<void(const std::string& data)>& on_event) {
  if (line.empty()) {
    if (has_data_) on_event(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  const auto colon = line.find(':');
  if (line.substr(0, colon) != "data") return;
  std::string_view value = colon == std::string_view::npos ? std::string_view{} : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += value;
  has_data_ = true;
}

}  // namespace moetune
