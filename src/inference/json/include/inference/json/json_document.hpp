/// JSON files of models: parsed to a bounded depth, each key of an object once, together with the
/// parser that owns the result.
///
///     JsonDocument document(kDepthMax);
///     IMEX_TRY(const auto fields, document.parse<simdjson::dom::object>(text, "tokenizer.json"));
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

#include <simdjson.h>

#include "base/result.hpp"

namespace imex::inference {

class JsonDocument {
 public:
  explicit JsonDocument(std::size_t depth) noexcept : depth_(depth) {}

  /// What `text` holds at its top: an object, an array, or any element. Lives as long as the
  /// document, until the next parse. Errors, with `what` in front: kDataLoss (no JSON, another
  /// kind, a key that appears twice in one object: readers disagree on which one counts),
  /// kResourceExhausted.
  template <class Kind>
  [[nodiscard]] Result<Kind> parse(std::string_view text, std::string_view what) {
    IMEX_TRY(const auto root, root_of(text, what));
    if constexpr (std::is_same_v<Kind, simdjson::dom::element>) return root;
    Kind found;
    if (const auto error = root.get(found); error != simdjson::SUCCESS) return refused(error, what);
    return found;
  }

 private:
  [[nodiscard]] Result<simdjson::dom::element> root_of(std::string_view text,
                                                       std::string_view what);
  [[nodiscard]] static tl::unexpected<Error> refused(simdjson::error_code error,
                                                     std::string_view what);

  std::size_t depth_;
  simdjson::dom::parser parser_;
};

}  // namespace imex::inference
