#include "tuner/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace moetune {

Terminal terminal_of(int descriptor) {
  Terminal terminal;
  const char* type = std::getenv("TERM");
  terminal.interactive = ::isatty(descriptor) == 1 && type != nullptr && std::string_view(type) != "dumb";
  // https://no-color.org: any value but the empty one.
  const char* no_color = std::getenv("NO_COLOR");
  terminal.colour = terminal.interactive && (no_color == nullptr || *no_color == '\0');
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) terminal.columns = size.ws_col;
  return terminal;
}

}  // namespace moetune
