#include "c_support.hpp"

#include <cstdint>
#include <span>
#include <string>

#include <fmt/format.h>

#include "base/result.hpp"

namespace imex::c {

namespace {

struct LastError {
  std::string text;
  std::uint32_t rank = kNoRank;
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

}  // namespace

int failed(Error error) {
  last_error() = {error.to_string(), error.rank};
  return static_cast<int>(error.code);
}

int missing(const char* what) {
  return failed({Errc::kInvalidArgument, fmt::format("{} is NULL", what), {}, kNoRank});
}

Result<void> read_options(void* defaults, std::size_t bytes, std::size_t first_bytes,
                          const void* given) {
  std::size_t given_bytes = 0;
  std::memcpy(&given_bytes, given, sizeof given_bytes);
  // Nothing that we ever make is as large: this is no size but memory that nobody set.
  constexpr std::size_t kSaneBytes = 4096;
  if (given_bytes < first_bytes || given_bytes > kSaneBytes) {
    return fail(Errc::kInvalidArgument,
                fmt::format("options: struct_size is {}, not {} or more", given_bytes, first_bytes),
                "start from the _INIT value of the structure");
  }
  const std::span all(static_cast<const std::byte*>(given), given_bytes);
  if (given_bytes > bytes) {
    const auto unknown = all.subspan(bytes);
    if (std::ranges::any_of(unknown, [](std::byte each) { return each != std::byte{0}; })) {
      return fail(Errc::kUnsupported,
                  fmt::format("options: an option behind byte {} is not known to release {}", bytes,
                              IMEX_VERSION_STRING),
                  "install the libimex that the program was compiled for");
    }
  }
  std::memcpy(defaults, given, std::min(bytes, given_bytes));
  return {};
}

}  // namespace imex::c

using imex::c::last_error;

const char* imex_last_error() { return last_error().text.c_str(); }
uint32_t imex_last_error_rank() { return last_error().rank; }
const char* imex_error_name(int code) {
  // Names are literals: the view ends with a NUL.
  return imex::errc_name(imex::errc_from_number(static_cast<std::uint32_t>(code))).data();
}
const char* imex_version() { return IMEX_VERSION_STRING; }
