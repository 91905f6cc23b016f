/// Text from outside, made fit for a terminal, a log or an error message.
#pragma once

#include <string>
#include <string_view>

namespace imex {

/// `text` with everything that could steer a terminal, fake a line or turn the order of what is
/// read escaped: control characters and what is no UTF-8 as "\n", "\t" or "\x1b" (bytes), the
/// characters that change direction or break lines as "\u202e". All else stays as it is, a
/// backslash too, so that the result is for reading and cannot be taken back.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace imex
