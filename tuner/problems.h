// Reading on after the first mistake, so that `validate` can name every one of a file. A reader says what is
// wrong with an InputError, which ends it. While a ProblemList lives in this thread, refuse() notes and
// returns instead, getters of JsonFields give a stand-in, and a step inside attempt() that throws is left
// behind for the next one. Whatever was read in that time is for no other use.
#pragma once

#include <string>
#include <vector>

#include "engine/facts/error.h"

namespace moetune {

class ProblemList {
 public:
  ProblemList();
  ~ProblemList();
  ProblemList(const ProblemList&) = delete;
  ProblemList& operator=(const ProblemList&) = delete;

  // place: what is wrong ("space.json: parameters[0].kind"). A problem of something that has been found wrong
  // before, or of a part of it, only follows from that: it is left out, and so is the same message again.
  void add(const std::string& place, const std::string& message);
  bool has(const std::string& place) const;
  const std::vector<std::string>& messages() const { return messages_; }

  static ProblemList* collecting();  // of this thread; nullptr: the first mistake ends the reading

 private:
  std::vector<std::string> places_;
  std::vector<std::string> messages_;
  ProblemList* outer_;
};

// Throws InputError(place, found, accepted), or notes it and returns. subject: what is wrong, where place
// names only the object it should be in.
void refuse(const std::string& place, const std::string& found, const std::string& accepted,
            const std::string& subject = "");

// Was something found wrong there? Always false outside of a ProblemList.
inline bool is_noted(const std::string& place) {
  return ProblemList::collecting() != nullptr && ProblemList::collecting()->has(place);
}

// A step of a reader that does not need the ones before it to have gone well.
template <class Step>
void attempt(Step&& step) {
  ProblemList* const problems = ProblemList::collecting();
  if (problems == nullptr) return step();
  try {
    step();
  } catch (const InputError& error) {
    problems->add("", error.what());
  }
}

}  // namespace moetune
