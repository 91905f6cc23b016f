/// The public Result plus what only our own code needs: passing errors on, and system errors.
#pragma once

#include <string>
#include <string_view>

#include <imex/result.hpp>

namespace imex {

/// The code that fits an errno value: ENOENT -> kNotFound, EMFILE -> kResourceExhausted, ...
[[nodiscard]] Errc errc_from_errno(int error_number) noexcept;

/// "`what`: Cannot allocate memory (12)" with the code that fits. Pass errno at once.
[[nodiscard]] Error system_error(int error_number, std::string_view what);

/// The code of a number from the wire; unknown numbers become kInternal.
[[nodiscard]] Errc errc_from_number(std::uint32_t number) noexcept;

}  // namespace imex

#define IMEX_CONCAT_INNER(a, b) a##b
#define IMEX_CONCAT(a, b) IMEX_CONCAT_INNER(a, b)
#define IMEX_TRY_VALUE(name, declaration, ...)             \
  auto name = (__VA_ARGS__);                               \
  if (!name) return ::imex::fail(std::move(name).error()); \
  declaration = std::move(*name)

/// IMEX_TRY(auto map, os::map(fd, size_bytes)): declares `map`, or returns the error.
#define IMEX_TRY(declaration, ...) \
  IMEX_TRY_VALUE(IMEX_CONCAT(imex_try_, __LINE__), declaration, __VA_ARGS__)

/// IMEX_CHECK_OK(expr): returns the error of a Result<void>.
#define IMEX_CHECK_OK(...)                                 \
  do {                                                     \
    if (auto imex_status = (__VA_ARGS__); !imex_status)    \
      return ::imex::fail(std::move(imex_status).error()); \
  } while (false)
