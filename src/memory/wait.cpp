#include <fmt/format.h>
#include <imex/wait.hpp>

#include "base/result.hpp"
#include "memory/abort_page.hpp"
#include "os/process.hpp"

namespace imex {

WaitPolicy WaitPolicy::for_ranks(std::uint32_t ranks_on_host) noexcept {
  static const unsigned kCores = os::usable_cores();
  return for_ranks(ranks_on_host, kCores);
}

WaitPolicy WaitPolicy::for_ranks(std::uint32_t ranks_on_host, std::uint32_t cores) noexcept {
  WaitPolicy policy;
  if (ranks_on_host > cores) {
    // The peer that is waited for may need this very core: one batch of 50 loads, then let go.
    policy.spin_ns = 1;
    policy.pause_ns = 0;
  }
  return policy;
}

Result<std::uint64_t> WaitResult::to_result() const {
  switch (status) {
    case WaitStatus::kDone:
      return seen;
    case WaitStatus::kDeadline:
      return fail(Errc::kDeadlineExceeded,
                  fmt::format("signal at {} when the deadline passed", seen));
    case WaitStatus::kAbandoned:
      return fail(Errc::kPeerLost, fmt::format("signal abandoned by its producer at {}", seen));
    case WaitStatus::kAborted:
      return fail(memory::abort_error(abort));
  }
  return fail(Errc::kInternal, fmt::format("wait status {}", static_cast<unsigned>(status)));
}

}  // namespace imex
