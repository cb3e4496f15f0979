// What the other end of a descriptor can show.
#pragma once

namespace moetune {

struct Terminal {
  bool interactive = false;  // a terminal that can redraw a line (not TERM=dumb)
  bool colour = false;       // interactive and NO_COLOR not set
  int columns = 80;          // as the terminal says; 80 where there is none
};

Terminal terminal_of(int descriptor);

}  // namespace moetune
