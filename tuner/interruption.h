// Ctrl-C without surprises: while an Interruption lives, SIGINT, SIGTERM and SIGHUP only set a flag and make
// a descriptor readable, so that every wait of the tuner ends at once and the log stays whole. SIGPIPE and
// SIGXFSZ are ignored, so that a dead worker and a full disk come back as errors instead of ending the
// program.
#pragma once

#include "tuner/descriptor.h"

namespace moetune {

class Interruption {
 public:
  Interruption();   // at most one at a time; throws std::logic_error for a second
  ~Interruption();  // puts the previous handlers back
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  bool requested() const;
  int descriptor() const { return readable_.number(); }  // readable once requested; for poll()

 private:
  Descriptor readable_;
  Descriptor writable_;
};

}  // namespace moetune
