#include "tuner/problems.h"

#include <algorithm>

namespace moetune {
namespace {

thread_local ProblemList* innermost = nullptr;

// Is the text about that place: itself, a field or an item of it?
bool is_about(const std::string& text, const std::string& place) {
  if (!text.starts_with(place)) return false;
  return text.size() == place.size() || text[place.size()] == ':' || text[place.size()] == '.' ||
         text[place.size()] == '[';
}

}  // namespace

ProblemList::ProblemList() : outer_(innermost) { innermost = this; }

ProblemList::~ProblemList() { innermost = outer_; }

ProblemList* ProblemList::collecting() { return innermost; }

bool ProblemList::has(const std::string& place) const {
  return std::ranges::any_of(places_, [&](const std::string& noted) { return is_about(place, noted); });
}

void ProblemList::add(const std::string& place, const std::string& message) {
  const bool follows = has(place.empty() ? message : place);
  if (!place.empty()) places_.push_back(place);
  if (!follows && std::ranges::find(messages_, message) == messages_.end()) messages_.push_back(message);
}

void refuse(const std::string& place, const std::string& found, const std::string& accepted,
            const std::string& subject) {
  const InputError error(place, found, accepted);
  if (innermost == nullptr) throw error;
  innermost->add(subject.empty() ? place : subject, error.what());
}

}  // namespace moetune
