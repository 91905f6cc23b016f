/// Operations on text that templates use, as Python does them. Case is changed in ASCII only, as
/// roles and names of tools are.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "value.hpp"

namespace imex::inference {

/// The character of UTF-8 that begins at `at`, below text.size(); of other bytes, what a decoder
/// would take together.
[[nodiscard]] std::string_view character_at(std::string_view text, std::size_t at) noexcept;
/// Of a text that is not empty.
[[nodiscard]] std::string_view last_character(std::string_view text) noexcept;
/// Of one character; 0xfffd if its bytes are no UTF-8.
[[nodiscard]] char32_t code_point(std::string_view character) noexcept;
[[nodiscard]] std::size_t count_characters(std::string_view text) noexcept;
/// Bytes of the white space, as str.isspace has it, at the start of `text`; 0 if there is none.
[[nodiscard]] std::size_t leading_space(std::string_view text) noexcept;
[[nodiscard]] std::size_t trailing_space(std::string_view text) noexcept;

/// Takes characters of `chars` (nothing: white space) from the ends.
[[nodiscard]] std::string_view strip(std::string_view text, std::optional<std::string_view> chars,
                                     bool left, bool right) noexcept;
/// Where `part` begins at `from` or later, in time of the sum of both sizes; npos if nowhere.
[[nodiscard]] std::size_t find_text(std::string_view text, std::string_view part,
                                    std::size_t from = 0) noexcept;
[[nodiscard]] std::string upper(std::string text);
[[nodiscard]] std::string lower(std::string text);
[[nodiscard]] std::string capitalize(std::string text);
/// All lines but empty ones, the first only if `first`.
[[nodiscard]] std::string indent(std::string_view text, std::size_t width, bool first);
/// Without white space around and without a plus sign, which std::from_chars does not take.
[[nodiscard]] std::string_view bare_number(std::string_view text) noexcept;
/// As int(text): white space around is fine. Errors: kInvalidArgument (more than 64 bits).
[[nodiscard]] Result<std::optional<std::int64_t>> parse_integer_text(std::string_view text);
/// int(number). Errors: kInvalidArgument (no number, or more than 64 bits).
[[nodiscard]] Result<std::int64_t> truncated(double number);
/// strftime in the C locale, UTC; the directives %a %A %b %B %d %H %I %j %m %M %p %S %y %Y %%.
/// Errors: kInvalidArgument.
[[nodiscard]] Result<Value> format_time(std::string_view format,
                                        std::chrono::system_clock::time_point now);

}  // namespace imex::inference
