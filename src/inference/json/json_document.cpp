#include "inference/json/json_document.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace imex::inference {

namespace {

/// A key that an object at or below `value` has twice. Recursion ends at the parser's depth.
std::optional<std::string_view> repeated_key(simdjson::dom::element value) {
  std::optional<std::string_view> repeated;
  simdjson::dom::array list;
  if (value.get(list) == simdjson::SUCCESS) {
    for (const simdjson::dom::element one : list) {
      if (!repeated) repeated = repeated_key(one);
    }
    return repeated;
  }
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return repeated;
  std::vector<std::string_view> keys;
  for (const auto field : object) {
    if (!repeated) repeated = repeated_key(field.value);
    keys.push_back(field.key);
  }
  if (repeated) return repeated;
  std::ranges::sort(keys);  // not hashed: an attacker could choose keys that collide
  const auto same = std::ranges::adjacent_find(keys);
  if (same != keys.end()) repeated = *same;
  return repeated;
}

}  // namespace

Result<simdjson::dom::element> JsonDocument::root_of(std::string_view text, std::string_view what) {
  simdjson::dom::element root;
  auto error = parser_.allocate(text.size(), depth_);
  if (error == simdjson::SUCCESS) error = parser_.parse(text.data(), text.size()).get(root);
  if (error != simdjson::SUCCESS) return refused(error, what);
  if (const auto key = repeated_key(root)) {
    return fail(Errc::kDataLoss, fmt::format("{}: key '{}' appears twice", what, *key),
                "keep the one that is meant");
  }
  return root;
}

tl::unexpected<Error> JsonDocument::refused(simdjson::error_code error, std::string_view what) {
  return fail(error == simdjson::MEMALLOC ? Errc::kResourceExhausted : Errc::kDataLoss,
              fmt::format("{}: {}", what, simdjson::error_message(error)));
}

}  // namespace imex::inference
