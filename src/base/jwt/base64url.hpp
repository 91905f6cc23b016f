/// Base64url without padding (RFC 7515, appendix C), strict: one text per value. Not for other
/// rooms.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace imex::jwt {

[[nodiscard]] std::string base64url(std::string_view bytes);
/// Errors: kInvalidArgument (other characters, padding, a length that cannot be, bits behind the
/// last byte that are not zero: a second text for the same bytes).
[[nodiscard]] Result<std::string> from_base64url(std::string_view text);

}  // namespace imex::jwt
