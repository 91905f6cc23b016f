/// Reads a request's body field by field, and gathers everything that is wrong with it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "context.hpp"
#include "partition/model/records.hpp"
#include "refusal.hpp"

namespace imex::partition {

/// Keys match without regard to case; unknown ones are ignored; null is as absent. Each getter
/// notes what is wrong under the field's name and returns nothing; check() then refuses with all
/// of it at once.
class Body {
 public:
  /// Errors: 400, not a JSON object, a key twice (also in two spellings with two values).
  [[nodiscard]] static Checked<Body> parse(std::string_view text);
  /// An object inside a body; problems are noted under `prefix`.
  [[nodiscard]] static Checked<Body> of(const nlohmann::json& object, std::string prefix);

  [[nodiscard]] bool has(std::string_view field) const { return find(field) != nullptr; }
  /// Null if absent or null.
  [[nodiscard]] const nlohmann::json* find(std::string_view field) const;

  [[nodiscard]] std::optional<std::string> text(std::string_view field, std::size_t length_max);
  /// 2 to 256 characters, no white space at either end.
  [[nodiscard]] std::optional<std::string> name(std::string_view field,
                                                std::size_t length_max = 256);
  [[nodiscard]] std::optional<Uuid> uuid(std::string_view field);
  [[nodiscard]] std::optional<bool> boolean(std::string_view field);
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view field, std::int64_t min,
                                                    std::int64_t max);
  [[nodiscard]] std::optional<Labels> labels(std::string_view field);
  [[nodiscard]] const nlohmann::json* array(std::string_view field, std::size_t length_max);
  /// Notes a value that is neither an object nor null.
  void object_or_null(std::string_view field);
  [[nodiscard]] std::optional<WallTime> time(std::string_view field);

  /// Notes that a field that must be there is not.
  void require(std::string_view field);
  void wrong(std::string_view field, std::string why);
  [[nodiscard]] Checked<void> check() const;
  /// Takes over what was noted in a part.
  void merge(const Body& part);

  /// Copies adjacent fields (kept and echoed, not understood) over those of `former_json`.
  [[nodiscard]] std::string keep(std::initializer_list<std::string_view> fields,
                                 const std::string& former_json = "{}") const;

 private:
  nlohmann::json json_;
  std::string prefix_;
  std::map<std::string, std::string> problems_;
};

/// As writing(), with a body. Role and body are looked at first, outside of the transaction: the
/// writer's thread is one for all, and must not read ten megabytes of somebody's JSON.
[[nodiscard]] Answer writing_body(
    Store& store, const Request& request, Checked<void> (*need)(const Caller&),
    const std::function<Checked<Answer>(WriteTransaction&, Body&)>& work);

/// Length in characters (code points) of what is valid UTF-8.
[[nodiscard]] std::size_t characters(std::string_view text);
/// RFC 3339 with zone Z or offset; nothing if it is no time.
[[nodiscard]] std::optional<WallTime> parse_time(std::string_view text);

}  // namespace imex::partition
