#include "assembly.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace imex::inference {

std::array<std::uint32_t, 256> single_byte_tokens(const Vocabulary& vocabulary) {
  std::array<std::uint32_t, 256> tokens{};
  for (std::size_t byte = 0; byte < tokens.size(); ++byte) {
    tokens[byte] = vocabulary.find(std::string(1, static_cast<char>(byte))).value_or(UINT32_MAX);
  }
  return tokens;
}

std::optional<std::array<std::uint32_t, 256>> fallback_byte_tokens(const Vocabulary& vocabulary) {
  std::array<std::uint32_t, 256> tokens{};
  for (std::size_t byte = 0; byte < tokens.size(); ++byte) {
    const auto id = vocabulary.find(fmt::format("<0x{:02X}>", byte));
    if (!id) return std::nullopt;
    tokens[byte] = *id;
  }
  return tokens;
}

Result<void> add_merge(const Vocabulary& vocabulary, std::string_view left, std::string_view right,
                       std::uint32_t rank, PairTable& merges) {
  const auto first = vocabulary.find(left);
  const auto second = vocabulary.find(right);
  const auto both = vocabulary.find(std::string(left).append(right));
  if (!first || !second || !both) {
    return fail(Errc::kDataLoss, fmt::format("merge {} names what is no token", rank));
  }
  if (vocabulary.special(*both)) return {};
  merges.add(*first, *second, rank, *both);
  return {};
}

Result<std::pair<std::string_view, std::string_view>> parse_merge(std::string_view text) {
  const std::size_t space = text.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == text.size()) {
    return fail(Errc::kDataLoss, fmt::format("'{}' is no merge of two tokens", text));
  }
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

}  // namespace imex::inference
