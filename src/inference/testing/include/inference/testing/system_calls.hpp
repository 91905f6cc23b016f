/// Code that is to make no system calls: one more ends the process.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <iterator>

namespace imex::inference::testing {

/// From now on this thread may wait, yield, look at the clock and end its process: any other system
/// call ends it with SIGSYS. Not to be undone. False where the kernel does not permit such filters.
inline bool allow_only_waiting() {
  constexpr unsigned kAllowed[] = {SYS_futex, SYS_sched_yield, SYS_clock_gettime, SYS_exit_group};
  constexpr unsigned kCount = std::size(kAllowed);
  sock_filter program[kCount + 3];
  program[0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);  // the number of the call
  for (unsigned i = 0; i < kCount; ++i) {
    program[i + 1] =
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAllowed[i], static_cast<unsigned char>(kCount - i), 0);
  }
  program[kCount + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  program[kCount + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace imex::inference::testing
