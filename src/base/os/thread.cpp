#include "os/thread.hpp"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <initializer_list>

namespace imex::os {

std::int32_t process_id() noexcept { return ::getpid(); }

std::int32_t thread_id() noexcept { return ::gettid(); }

SignalsBlocked::SignalsBlocked() noexcept {
  sigset_t all;
  ::sigfillset(&all);
  // Faults of the thread itself stay deliverable: a blocked SIGSEGV would end the process unseen.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_SETMASK, &all, &former_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

void name_this_thread(const char* name) noexcept { ::prctl(PR_SET_NAME, name); }

}  // namespace imex::os
