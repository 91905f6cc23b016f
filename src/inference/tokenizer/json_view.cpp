#include "json_view.hpp"

#include <fmt/format.h>

namespace imex::inference {

tl::unexpected<Error> JsonView::wrong(std::string_view wanted) const {
  return fail(Errc::kDataLoss, fmt::format("tokenizer.json: '{}' is not {}", path_, wanted));
}

std::optional<JsonView> JsonView::find(std::string_view name) const {
  simdjson::dom::element found;
  if (element_.at_key(name).get(found) != simdjson::SUCCESS || found.is_null()) return std::nullopt;
  return JsonView(found, fmt::format("{}.{}", path_, name));
}

Result<JsonView> JsonView::member(std::string_view name) const {
  if (auto found = find(name)) return *std::move(found);
  return fail(Errc::kDataLoss, fmt::format("tokenizer.json: '{}' has no '{}'", path_, name));
}

Result<simdjson::dom::array> JsonView::array() const {
  simdjson::dom::array value;
  if (element_.get(value) != simdjson::SUCCESS) return wrong("a list");
  return value;
}

Result<simdjson::dom::object> JsonView::object() const {
  simdjson::dom::object value;
  if (element_.get(value) != simdjson::SUCCESS) return wrong("an object");
  return value;
}

Result<std::string_view> JsonView::text() const {
  std::string_view value;
  if (element_.get(value) != simdjson::SUCCESS) return wrong("a string");
  return value;
}

Result<std::uint64_t> JsonView::count() const {
  std::uint64_t value = 0;
  if (element_.get(value) != simdjson::SUCCESS) return wrong("a whole number from 0");
  return value;
}

Result<double> JsonView::number() const {
  double value = 0;
  if (element_.get(value) != simdjson::SUCCESS) return wrong("a number");
  return value;
}

Result<bool> JsonView::flag(std::string_view name, bool missing) const {
  const auto found = find(name);
  if (!found) return missing;
  bool value = false;
  if (found->element_.get(value) != simdjson::SUCCESS) return found->wrong("true or false");
  return value;
}

Result<std::string_view> JsonView::text_or(std::string_view name, std::string_view missing) const {
  const auto found = find(name);
  if (!found) return missing;
  return found->text();
}

}  // namespace imex::inference
