/// tokenizer.json as a tree that is asked by name and kind, with errors that say where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <simdjson.h>

#include "base/result.hpp"

namespace imex::inference {

/// Borrows from the parser's document.
class JsonView {
 public:
  JsonView(simdjson::dom::element element, std::string path)
      : element_(element), path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] bool is_null() const noexcept { return element_.is_null(); }

  /// The member of an object; none if it is absent or null.
  [[nodiscard]] std::optional<JsonView> find(std::string_view name) const;
  [[nodiscard]] Result<JsonView> member(std::string_view name) const;
  [[nodiscard]] Result<simdjson::dom::array> array() const;
  [[nodiscard]] Result<simdjson::dom::object> object() const;
  [[nodiscard]] Result<std::string_view> text() const;
  [[nodiscard]] Result<std::uint64_t> count() const;
  [[nodiscard]] Result<double> number() const;

  // Members with a default.
  [[nodiscard]] Result<bool> flag(std::string_view name, bool missing) const;
  [[nodiscard]] Result<std::string_view> text_or(std::string_view name,
                                                 std::string_view missing) const;

  [[nodiscard]] tl::unexpected<Error> wrong(std::string_view wanted) const;

 private:
  simdjson::dom::element element_;
  std::string path_;
};

}  // namespace imex::inference
