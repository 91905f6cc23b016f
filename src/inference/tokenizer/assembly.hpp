/// What the loaders share: from lists of tokens to the tables of a model.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "model.hpp"
#include "vocabulary.hpp"

namespace imex::inference {

/// The tokens of single bytes of a byte-level vocabulary; UINT32_MAX where one has none, as trained
/// vocabularies lack bytes that were not in the training text.
[[nodiscard]] std::array<std::uint32_t, 256> single_byte_tokens(const Vocabulary& vocabulary);

/// The tokens "<0x00>" to "<0xFF>"; none unless all are there.
[[nodiscard]] std::optional<std::array<std::uint32_t, 256>> fallback_byte_tokens(
    const Vocabulary& vocabulary);

/// Adds merge number `rank`. `left` and `right` as in the vocabulary's texts. One that would make a
/// special token out of text is left out. Errors: kDataLoss (one of the three texts is no token).
[[nodiscard]] Result<void> add_merge(const Vocabulary& vocabulary, std::string_view left,
                                     std::string_view right, std::uint32_t rank, PairTable& merges);

/// "a b" -> ("a", "b"): the space that parts them is the first one after the first character.
[[nodiscard]] Result<std::pair<std::string_view, std::string_view>> parse_merge(
    std::string_view text);

inline constexpr std::string_view kMarkedSpace = "\u2581";

}  // namespace imex::inference
