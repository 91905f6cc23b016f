/// What membership tests share: identities, and picking effects by type.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "domain/membership.hpp"
#include "seeded_random.hpp"

namespace imex::domain::testing_kit {

/// A Uuid that is easy to tell from others: 0, ..., 0, number.
inline Uuid id_of(std::uint64_t number) {
  Uuid id;
  for (std::size_t i = 0; i < 8; ++i) id.bytes[15 - i] = static_cast<std::byte>(number >> (8 * i));
  return id;
}

template <class T>
std::vector<T> all(const std::vector<MembershipEffect>& effects) {
  std::vector<T> found;
  for (const auto& effect : effects) {
    if (const T* hit = std::get_if<T>(&effect)) found.push_back(*hit);
  }
  return found;
}

template <class T>
std::optional<T> one(const std::vector<MembershipEffect>& effects) {
  const auto found = all<T>(effects);
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

inline bool logged(const std::vector<MembershipEffect>& effects, std::string_view part,
                   int level = -1) {
  const auto lines = all<MembershipLog>(effects);
  return std::ranges::any_of(lines, [&](const MembershipLog& line) {
    return line.text.find(part) != std::string::npos && (level < 0 || line.level == level);
  });
}

}  // namespace imex::domain::testing_kit
