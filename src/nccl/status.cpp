#include "status.hpp"

#include <utility>

namespace imex::nccl {

namespace {

std::string& kept_failure() {
  thread_local std::string text;
  return text;
}

}  // namespace

ncclResult_t result_of(Errc code) noexcept {
  switch (code) {
    case Errc::kOk:
      return ncclSuccess;
    case Errc::kInvalidArgument:
      return ncclInvalidArgument;
    case Errc::kFailedPrecondition:
    case Errc::kUnsupported:
    case Errc::kAlreadyExists:
      return ncclInvalidUsage;
    case Errc::kPeerLost:
    case Errc::kAborted:
    case Errc::kRevoked:
      return ncclRemoteError;
    case Errc::kDeadlineExceeded:
      return ncclTimeout;
    case Errc::kNotFound:
    case Errc::kPermissionDenied:
    case Errc::kResourceExhausted:
    case Errc::kUnavailable:
      return ncclSystemError;
    case Errc::kStale:
    case Errc::kDataLoss:
    case Errc::kVersionMismatch:
    case Errc::kInternal:
      break;
  }
  return ncclInternalError;
}

ncclResult_t failed(const Error& error) {
  kept_failure() = error.to_string();
  return result_of(error.code);
}

const std::string& last_failure() noexcept { return kept_failure(); }

const char* lend(std::string text) {
  thread_local std::string lent;
  lent = std::move(text);
  return lent.c_str();
}

}  // namespace imex::nccl
