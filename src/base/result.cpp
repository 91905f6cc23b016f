#include "base/result.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

namespace imex {

namespace {
constexpr std::array<std::string_view, 17> kNames = {"ok",
                                                     "invalid_argument",
                                                     "not_found",
                                                     "already_exists",
                                                     "permission_denied",
                                                     "resource_exhausted",
                                                     "failed_precondition",
                                                     "aborted",
                                                     "deadline_exceeded",
                                                     "unavailable",
                                                     "peer_lost",
                                                     "revoked",
                                                     "stale",
                                                     "data_loss",
                                                     "unsupported",
                                                     "version_mismatch",
                                                     "internal"};
static_assert(kNames.size() == static_cast<std::size_t>(Errc::kInternal) + 1);
}  // namespace

std::string_view errc_name(Errc code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : kNames.back();
}

std::string Error::to_string() const {
  std::string text = fmt::format("{} ({})", message, errc_name(code));
  if (!hint.empty()) text += "; " + hint;
  return text;
}

Errc errc_from_errno(int error_number) noexcept {
  switch (error_number) {
    case ENOENT:
    case ESRCH:
    case ENODEV:
      return Errc::kNotFound;
    case EEXIST:
    case EADDRINUSE:
      return Errc::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Errc::kPermissionDenied;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case EAGAIN:
    case ENOBUFS:
      return Errc::kResourceExhausted;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
      return Errc::kInvalidArgument;
    case ETIMEDOUT:
      return Errc::kDeadlineExceeded;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return Errc::kUnavailable;
    case ENOSYS:
    case EOPNOTSUPP:
      return Errc::kUnsupported;
    default:
      return Errc::kInternal;
  }
}

Error system_error(int error_number, std::string_view what) {
  return Error{errc_from_errno(error_number),
               fmt::format("{}: {} ({})", what, std::generic_category().message(error_number),
                           error_number)};
}

Errc errc_from_number(std::uint32_t number) noexcept {
  return number < kNames.size() ? static_cast<Errc>(number) : Errc::kInternal;
}

}  // namespace imex
