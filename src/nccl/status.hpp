/// Errors of Imex as NCCL has them: a number, and a text that is asked for later.
#pragma once

#include <string>

#include <imex/nccl/nccl.h>
#include <imex/result.hpp>

namespace imex::nccl {

[[nodiscard]] ncclResult_t result_of(Errc code) noexcept;

/// Keeps the text for ncclGetLastError() of this thread; returns the number.
ncclResult_t failed(const Error& error);
inline ncclResult_t report(const Result<void>& result) {
  return result ? ncclSuccess : failed(result.error());
}

/// What failed() kept last in this thread.
[[nodiscard]] const std::string& last_failure() noexcept;
/// Keeps a copy of `text` until this thread calls it again.
[[nodiscard]] const char* lend(std::string text);

}  // namespace imex::nccl
