#include "tuner/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include <fmt/format.h>

#include "tuner/durable_file.h"

namespace moetune {
namespace {

// A pair of posix_spawn's settings, given back in any case.
struct Settings {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  Settings() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  ~Settings() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;
};

}  // namespace

pid_t spawn(const SpawnRequest& request) {
  std::vector<char*> arguments;
  for (const std::string& argument : request.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));  // posix_spawn changes none of them
  arguments.push_back(nullptr);
  // This program again: by that path ps, and doctor by way of NVML, would call it "exe".
  if (request.command.front() == "/proc/self/exe") arguments.front() = ::program_invocation_short_name;

  Settings settings;
  ::posix_spawn_file_actions_addopen(&settings.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (const auto& [ours, theirs] : request.descriptors)
    ::posix_spawn_file_actions_adddup2(&settings.files, ours, theirs);

  int flags = 0;
  if (request.own_group) {
    flags |= POSIX_SPAWN_SETPGROUP;
    ::posix_spawnattr_setpgroup(&settings.attributes, 0);
  }
  if (!request.default_signals.empty()) {
    flags |= POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    sigset_t defaults;
    sigset_t none;
    ::sigemptyset(&none);
    ::sigemptyset(&defaults);
    for (const int signal : request.default_signals) ::sigaddset(&defaults, signal);
    ::posix_spawnattr_setsigdefault(&settings.attributes, &defaults);
    ::posix_spawnattr_setsigmask(&settings.attributes, &none);
  }
  ::posix_spawnattr_setflags(&settings.attributes, static_cast<short>(flags));

  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, request.command.front().c_str(), &settings.files,
                                  &settings.attributes, arguments.data(), environ);
  if (error != 0)
    throw std::runtime_error(
        fmt::format("{}{} cannot be started: {}", request.role, request.command.front(), error_text(error)));
  return pid;
}

std::string how_it_ended(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit status {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("was killed by SIG{}", name)
                         : fmt::format("was killed by signal {}", signal);
}

}  // namespace moetune
