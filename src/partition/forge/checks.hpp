/// Checks and look-ups that several parts of Administration share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "partition/store/transaction.hpp"

namespace imex::partition::forge {

inline constexpr std::size_t kNameBytesMax = 256, kDescriptionBytesMax = 1024, kOrgBytesMax = 64;

/// Not empty, not too long, no white space around it. Errors: kInvalidArgument.
[[nodiscard]] inline Result<void> check_text(std::string_view what, std::string_view text,
                                             std::size_t bytes_max) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  if (text.empty()) return fail(Errc::kInvalidArgument, fmt::format("{} is missing", what));
  if (text.size() > bytes_max) {
    return fail(Errc::kInvalidArgument, fmt::format("{} has {} bytes, at most {} are possible",
                                                    what, text.size(), bytes_max));
  }
  if (kSpace.find(text.front()) != std::string_view::npos ||
      kSpace.find(text.back()) != std::string_view::npos) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{} '{}' begins or ends with white space", what, printable(text)));
  }
  return {};
}

[[nodiscard]] inline Result<void> check_description(std::string_view text) {
  if (text.size() <= kDescriptionBytesMax) return {};
  return fail(Errc::kInvalidArgument,
              fmt::format("the description has {} bytes, at most {} are possible", text.size(),
                          kDescriptionBytesMax));
}

/// All rows of which `field` is one of `values`, ordered by `order`. No values: no rows.
template <class T>
[[nodiscard]] Result<std::vector<T>> rows_with(ReadTransaction& t, Field field,
                                               std::vector<std::string> values,
                                               Field order = Field::kCreated) {
  if (values.empty()) return std::vector<T>();
  ListQuery query;
  query.filters.push_back({field, std::move(values)});
  query.order = order;
  return t.list<T>(query);
}

/// Or kNotFound: "no instance 123".
template <class T>
[[nodiscard]] Result<T> existing(ReadTransaction& t, const typename KeyOf<T>::Type& id,
                                 std::string_view what, const std::string& name) {
  IMEX_TRY(std::optional<T> found, t.find<T>(id));
  if (!found) return fail(Errc::kNotFound, fmt::format("no {} {}", what, printable(name)));
  return std::move(*found);
}

template <class T>
[[nodiscard]] std::vector<std::string> texts_of(const std::vector<T>& ids) {
  std::vector<std::string> texts;
  texts.reserve(ids.size());
  for (const T& id : ids) texts.push_back(id.to_string());
  return texts;
}

}  // namespace imex::partition::forge
