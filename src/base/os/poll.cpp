#include "os/poll.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "syscall.hpp"

namespace imex::os {

Result<void> poll_any(std::span<PollItem> items, std::chrono::steady_clock::time_point deadline) {
  std::vector<pollfd> wanted(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const int read = items[i].want_read ? POLLIN : 0;
    const int write = items[i].want_write ? POLLOUT : 0;
    wanted[i] = {items[i].fd, static_cast<short>(read | write), 0};
  }
  for (;;) {
    timespec left{};
    const bool endless = deadline == std::chrono::steady_clock::time_point::max();
    if (!endless) left = to_timespec(time_left(deadline));
    if (::ppoll(wanted.data(), items.size(), endless ? nullptr : &left, nullptr) >= 0) break;
    if (errno != EINTR) return fail(system_error(errno, "poll"));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    const int found = wanted[i].revents;
    items[i].readable = (found & POLLIN) != 0;
    items[i].writable = (found & POLLOUT) != 0;
    items[i].hung_up = (found & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  }
  return {};
}

Result<EventFd> EventFd::make() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return fail(system_error(errno, "eventfd"));
  return EventFd(std::move(fd));
}

void EventFd::raise() noexcept {
  // Fails only when the counter is full: then the descriptor is readable already.
  const std::uint64_t one = 1;
  static_cast<void>(retry([&] { return ::write(fd_.get(), &one, sizeof one); }));
}

void EventFd::lower() noexcept {
  // Fails only when the counter is zero: then the descriptor is not readable already.
  std::uint64_t count = 0;
  static_cast<void>(retry([&] { return ::read(fd_.get(), &count, sizeof count); }));
}

}  // namespace imex::os
