/// A template as pieces: literal text, and the tokens inside {{ }} and {% %}. Comments are gone and
/// white space is trimmed as blocks ask.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace imex::inference {

struct TemplateToken {
  enum class Kind : std::uint8_t {
    kText,         ///< literal output
    kOutputBegin,  ///< {{
    kOutputEnd,
    kBlockBegin,  ///< {%
    kBlockEnd,
    kName,
    kString,  ///< `text` is what it stands for
    kInteger,
    kFloat,
    kSign,  ///< operators and punctuation
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  std::uint32_t line = 0;
};

[[nodiscard]] Result<std::vector<TemplateToken>> tokenize_template(std::string_view text);

/// "chat template line 7: what", kUnsupported.
[[nodiscard]] tl::unexpected<Error> refuse_template(std::uint32_t line, std::string_view what,
                                                    Errc code = Errc::kUnsupported);

}  // namespace imex::inference
