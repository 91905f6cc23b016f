/// An operation's way out when the answer is no: status, sentence, data.
#pragma once

#include <map>
#include <string>
#include <utility>

#include <tl/expected.hpp>

#include "partition/service/service.hpp"

namespace imex::partition {

struct Refusal {
  int status = 400;
  std::string message{};
  std::string data_json = "null";
};

/// A value, or why the request is refused.
template <class T>
using Checked = tl::expected<T, Refusal>;

[[nodiscard]] inline tl::unexpected<Refusal> refuse(Refusal refusal) {
  return tl::unexpected<Refusal>(std::move(refusal));
}
[[nodiscard]] inline tl::unexpected<Refusal> refuse(int status, std::string message,
                                                    std::string data_json = "null") {
  return refuse(Refusal{status, std::move(message), std::move(data_json)});
}
/// What the store says, as the API says it: 404, 409, 412, 503, ...
[[nodiscard]] Refusal refusal_of(const Error& error);
[[nodiscard]] inline tl::unexpected<Refusal> refuse(const Error& error) {
  return refuse(refusal_of(error));
}
/// 400 with one message per field.
[[nodiscard]] Refusal invalid(const std::map<std::string, std::string>& fields);
[[nodiscard]] inline tl::unexpected<Refusal> refuse_field(const std::string& field,
                                                          const std::string& why) {
  return refuse(invalid({{field, why}}));
}
/// {"id": "…"}: with whom a name collides.
[[nodiscard]] std::string id_data(const std::string& id);

}  // namespace imex::partition

// IMEX_GET(auto x, expression): as IMEX_TRY, out of a function that returns Checked<>.
#define IMEX_GET_VALUE(name, declaration, ...)                          \
  auto name = (__VA_ARGS__);                                            \
  if (!name) return ::imex::partition::refuse(std::move(name).error()); \
  declaration = std::move(*name)
#define IMEX_GET(declaration, ...) \
  IMEX_GET_VALUE(IMEX_CONCAT(imex_get_, __LINE__), declaration, __VA_ARGS__)
#define IMEX_PASS(...)                                                  \
  do {                                                                  \
    if (auto imex_passed = (__VA_ARGS__); !imex_passed)                 \
      return ::imex::partition::refuse(std::move(imex_passed).error()); \
  } while (false)
