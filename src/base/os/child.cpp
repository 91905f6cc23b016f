#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "os/process.hpp"
#include "syscall.hpp"

namespace imex::os {

namespace {

/// All that the child needs between fork() and exec(), made before: there it must not allocate.
struct Plan {
  std::vector<std::string> environment;
  std::vector<char*> argument_pointers, environment_pointers;
  int stdin_fd, stdout_fd, stderr_fd;
  bool die_with_parent;
  pid_t parent;
  int report_fd;  ///< takes errno if there is no exec()
};

std::string_view name_of(std::string_view assignment) {
  return assignment.substr(0, assignment.find('='));
}

/// The inherited environment with `added` on top.
std::vector<std::string> merge_environment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const bool replaced = std::any_of(added.begin(), added.end(), [&](const auto& pair) {
      return name_of(*entry) == pair.first;
    });
    if (!replaced) result.emplace_back(*entry);
  }
  for (const auto& [name, value] : added) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Only async-signal-safe calls from here to exec(): other threads of the parent may hold locks.
int redirect(int from, int to) noexcept {
  if (from < 0) return 0;
  return retry([&] { return ::dup2(from, to); });
}

[[noreturn]] void give_up(int report_fd, int error) noexcept {
  // Fits a pipe's buffer, so it is written whole; if not, the parent sees the exit status.
  static_cast<void>(!retry([&] { return ::write(report_fd, &error, sizeof error); }));
  ::_exit(127);
}

[[noreturn]] void become(const Plan& plan) noexcept {
  if (plan.die_with_parent) {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(plan.report_fd, errno);
    // The parent may have ended before the line above; then no signal will ever come.
    if (::getppid() != plan.parent) ::_exit(127);
  }
  // Copies first: the target of one may be the source of the other. They close at exec().
  int in = plan.stdin_fd;
  int out = plan.stdout_fd;
  int err = plan.stderr_fd;
  if (in >= 0) in = ::fcntl(in, F_DUPFD_CLOEXEC, 3);
  if (out >= 0) out = ::fcntl(out, F_DUPFD_CLOEXEC, 3);
  if (err >= 0) err = ::fcntl(err, F_DUPFD_CLOEXEC, 3);
  if ((plan.stdin_fd >= 0 && in < 0) || (plan.stdout_fd >= 0 && out < 0) ||
      (plan.stderr_fd >= 0 && err < 0) || redirect(in, STDIN_FILENO) < 0 ||
      redirect(out, STDOUT_FILENO) < 0 || redirect(err, STDERR_FILENO) < 0) {
    give_up(plan.report_fd, errno);
  }
  // Blocked and ignored signals survive exec(); the program is to start with the defaults.
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(plan.argument_pointers[0], plan.argument_pointers.data(),
           plan.environment_pointers.data());
  give_up(plan.report_fd, errno);
}

/// 0 once exec() has closed the pipe, else the errno that the child wrote.
int read_report(int fd) noexcept {
  int error = 0;
  const ssize_t got = retry([&] { return ::read(fd, &error, sizeof error); });
  return got == static_cast<ssize_t>(sizeof error) ? error : 0;
}

int shell_status(const siginfo_t& info) noexcept {
  return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

/// Status that nobody can know any more: SIGCHLD is ignored, or somebody else waited.
constexpr int kStatusLost = 255;

}  // namespace

Result<Child> Child::start(const Options& options) {
  if (options.arguments.empty())
    return fail(Errc::kInvalidArgument, "start a program: no path given");
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail(system_error(errno, "make a pipe"));
  const UniqueFd report(ends[0]);
  UniqueFd child_end(ends[1]);

  Plan plan{merge_environment(options.environment),
            pointers_to(options.arguments),
            {},
            options.stdin_fd,
            options.stdout_fd,
            options.stderr_fd,
            options.die_with_parent,
            ::getpid(),
            child_end.get()};
  plan.environment_pointers = pointers_to(plan.environment);

  const pid_t pid = ::fork();
  if (pid < 0) return fail(system_error(errno, fmt::format("start '{}'", options.arguments[0])));
  if (pid == 0) become(plan);
  child_end.reset();

  Child child;
  child.pid_ = pid;
  auto pidfd = open_pidfd(pid);  // cannot name a stranger: the child is not yet waited for
  if (!pidfd) {
    ::kill(pid, SIGKILL);
    retry([&] { return ::waitpid(pid, nullptr, 0); });
    return fail(std::move(pidfd).error().context(fmt::format("start '{}'", options.arguments[0])));
  }
  child.pidfd_ = std::move(*pidfd);
  if (const int error = read_report(report.get()); error != 0) {
    return fail(system_error(error, fmt::format("start '{}'", options.arguments[0])));
  }
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    Child old(std::move(*this));  // ends ours
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
    status_ = std::exchange(other.status_, std::nullopt);
  }
  return *this;
}

Child::~Child() {
  if (!pidfd_ || status_) return;
  if (!signal_pidfd(pidfd_.get(), SIGKILL)) return;  // ended and waited for elsewhere
  siginfo_t info{};
  retry([&] { return ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED); });
}

Result<void> Child::kill(int signal_number) const {
  if (status_ || !pidfd_) {
    return fail(Errc::kNotFound, fmt::format("process {} has ended", pid_));
  }
  return signal_pidfd(pidfd_.get(), signal_number);
}

std::optional<int> Child::wait(std::chrono::milliseconds timeout) {
  if (status_ || !pidfd_) return status_;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    pollfd entry{pidfd_.get(), POLLIN, 0};
    const timespec left = to_timespec(time_left(deadline));
    const int ready = ::ppoll(&entry, 1, &left, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    siginfo_t info{};
    const int rc = retry([&] {
      return ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
    });
    status_ = rc == 0 && info.si_pid != 0 ? shell_status(info) : kStatusLost;
    return status_;
  }
}

}  // namespace imex::os
