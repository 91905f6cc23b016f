/// What a library must see to when it runs a thread inside somebody else's process.
#pragma once

#include <csignal>
#include <cstdint>

namespace imex::os {

/// Of the calling process; asks the kernel each time, so that a child of fork() sees its own.
[[nodiscard]] std::int32_t process_id() noexcept;

/// Of the calling thread, as the kernel and debuggers number it.
[[nodiscard]] std::int32_t thread_id() noexcept;

/// Blocks all signals of the calling thread for a scope. A thread started within inherits that, so
/// that the handlers of the application never run on it.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept;
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t former_;
};

/// At most 15 characters are kept; seen in /proc/PID/task/TID/comm and in debuggers.
void name_this_thread(const char* name) noexcept;

}  // namespace imex::os
