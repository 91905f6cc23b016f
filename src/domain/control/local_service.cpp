#include "local_service.hpp"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace imex::domain {
namespace {

/// sun_path holds 108 bytes with the final zero.
constexpr std::size_t kSocketPathMax = 107;

Errc errc_of(grpc::StatusCode code) noexcept {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return Errc::kInvalidArgument;
    case grpc::StatusCode::NOT_FOUND:
      return Errc::kNotFound;
    case grpc::StatusCode::ALREADY_EXISTS:
      return Errc::kAlreadyExists;
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return Errc::kPermissionDenied;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Errc::kResourceExhausted;
    case grpc::StatusCode::FAILED_PRECONDITION:
      return Errc::kFailedPrecondition;
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::CANCELLED:
      return Errc::kAborted;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Errc::kDeadlineExceeded;
    case grpc::StatusCode::UNAVAILABLE:
      return Errc::kUnavailable;
    case grpc::StatusCode::UNIMPLEMENTED:
      return Errc::kVersionMismatch;
    case grpc::StatusCode::DATA_LOSS:
      return Errc::kDataLoss;
    default:
      return Errc::kInternal;
  }
}

}  // namespace

Result<LocalService> LocalService::open(const std::string& path,
                                        std::chrono::milliseconds timeout) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(path, error)) {
    return fail(Errc::kNotFound, fmt::format("no daemon's socket {}", path),
                "start imexd, or name its state directory with --state-dir");
  }
  const fs::path whole = fs::absolute(path, error);
  std::string target = whole.string();
  os::UniqueFd directory;
  if (target.size() > kSocketPathMax) {
    directory = os::UniqueFd(::open(whole.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory)
      return fail(system_error(errno, fmt::format("open {}", whole.parent_path().string())));
    target = fmt::format("/proc/self/fd/{}/{}", directory.get(), whole.filename().string());
  }
  auto channel = grpc::CreateChannel("unix:" + target, grpc::InsecureChannelCredentials());
  return LocalService(path, timeout, std::move(directory), std::move(channel));
}

/// What a failed call means to a person. gRPC tells a refused connection only in words.
Error LocalService::error_of(const grpc::Status& status, const std::string& what) const {
  Error error{errc_of(status.error_code()), fmt::format("{}: {}", what, status.error_message())};
  if (status.error_message().find("ermission denied") != std::string::npos) {
    error.code = Errc::kPermissionDenied;
    error.hint =
        fmt::format("{} is for root and the daemon's user: run this as one of them", path_);
  } else if (status.error_message().find("failed to connect") != std::string::npos) {
    error.hint = "see whether imexd runs, and what its log says";
  }
  return error;
}

}  // namespace imex::domain
