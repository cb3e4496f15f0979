#include "tests/support/child_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "tuner/descriptor.h"

namespace moetune {
namespace {
namespace fs = std::filesystem;

// State and parent of a process, from /proc/PID/stat: "PID (name) STATE PARENT ...".
struct ProcessState {
  char state = '?';
  pid_t parent = 0;
};
std::optional<ProcessState> state_of(pid_t pid) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  const auto name_end = line.rfind(") ");  // the name may hold blanks and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  return ProcessState{line[name_end + 2], static_cast<pid_t>(std::atol(line.c_str() + name_end + 4))};
}

// True once the process has ended; needs no parentage.
bool await_end(pid_t pid, std::chrono::milliseconds at_most) {
  const Descriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!watch.is_open()) return errno == ESRCH;
  pollfd wait{watch.number(), POLLIN, 0};
  return ::poll(&wait, 1, static_cast<int>(at_most.count())) == 1;
}
}  // namespace

std::string tune_synthetic_program() {
  return (fs::read_symlink("/proc/self/exe").parent_path() / "tune_synthetic").string();
}

ChildProgram::ChildProgram(const std::vector<std::string>& command, const std::string& output_file) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output_file.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  const int error = ::posix_spawnp(&pid_, arguments.front(), &files, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw std::system_error(error, std::generic_category(), command.front());
}

ChildProgram::~ChildProgram() {
  if (status_) return;
  signal(SIGKILL);
  wait();
}

void ChildProgram::signal(int number) const {
  if (!status_) ::kill(pid_, number);
}

std::optional<int> ChildProgram::wait(std::chrono::milliseconds at_most) {
  if (!status_ && await_end(pid_, at_most)) wait();
  return status_;
}

int ChildProgram::wait() {
  if (!status_) {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0)
      if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
    status_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  return *status_;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto child = static_cast<pid_t>(std::atol(entry.path().filename().c_str()));
    if (child <= 0) continue;
    const auto state = state_of(child);
    if (state && state->parent == pid && state->state != 'Z') children.push_back(child);
  }
  return children;
}

bool is_gone(pid_t pid) {
  const auto state = state_of(pid);
  return !state || state->state == 'Z' || state->state == 'X';
}

bool is_gone_within(pid_t pid, std::chrono::milliseconds at_most) {
  return is_gone(pid) || await_end(pid, at_most);
}

}  // namespace moetune
