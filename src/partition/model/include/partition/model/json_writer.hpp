/// Writes JSON text straight into a string, in the order of the calls: answers of the API and
/// lines of the audit log. About ten times faster than building a tree first.
///
///     JsonWriter json;
///     json.begin_object().member("name", name).member("gpus", 4).end_object();
///     return std::move(json).text();
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "partition/model/ids.hpp"
#include "partition/model/records.hpp"
#include "partition/model/status.hpp"

namespace imex::partition {

/// "2026-03-01T12:00:00.123456Z"
[[nodiscard]] std::string rfc3339(WallTime time);

/// Calls must nest as JSON does; that is asserted nowhere, tests parse what is written.
class JsonWriter {
 public:
  JsonWriter() { text_.reserve(1024); }

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(std::nullptr_t) { return raw("null"); }
  template <std::integral T>
  JsonWriter& value(T number) {
    if constexpr (std::same_as<T, bool>)
      return raw(number ? "true" : "false");
    else
      return raw(std::to_string(number));
  }
  JsonWriter& value(WallTime time) { return value(rfc3339(time)); }
  JsonWriter& value(Status status) { return value(status_name(status)); }
  JsonWriter& value(Health health) { return value(health_name(health)); }
  JsonWriter& value(const MachineId& id) { return value(id.text); }
  template <class Tag>
  JsonWriter& value(const Id<Tag>& id) {
    return value(id.to_string());
  }
  template <class T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : raw("null");
  }
  JsonWriter& value(const Labels& labels);

  template <class T>
  JsonWriter& member(std::string_view name, const T& what) {
    return key(name).value(what);
  }
  /// Text that is JSON already.
  JsonWriter& raw(std::string_view json);
  JsonWriter& raw_member(std::string_view name, std::string_view json) {
    return key(name).raw(json);
  }

  [[nodiscard]] std::string text() && { return std::move(text_); }
  [[nodiscard]] const std::string& text() const& noexcept { return text_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void quote(std::string_view text);

  std::string text_;
  bool first_ = true;  ///< nothing yet in the innermost object or array
};

}  // namespace imex::partition
