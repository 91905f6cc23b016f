#include "json/json.hpp"

#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace imex::json {

namespace {

using Value = nlohmann::json;

/// Builds the value while the text is read, and stops at the first thing that is refused.
class Builder : public nlohmann::json_sax<Value> {
 public:
  explicit Builder(const Limits& limits) : limits_(limits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return refuse("binary data"); }
  bool start_object(std::size_t /*size*/) override { return open(Value::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Value::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    const auto [place, fresh] = open_.back()->get_ref<Value::object_t&>().emplace(name, nullptr);
    if (!fresh) {
      return refuse(fmt::format("key '{}' appears twice", printable(name.substr(0, 64))));
    }
    field_ = &place->second;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& problem) override {
    // nlohmann's text repeats the input, which may be long or secret: only the place is told.
    const bool overflow = problem.id == 406;
    return refuse(
        fmt::format("{} at byte {}", overflow ? "a number out of range" : "not JSON", position));
  }

  [[nodiscard]] Value take() noexcept { return std::move(root_); }
  [[nodiscard]] Error error(std::string_view what) && {
    return {code_, fmt::format("{}: {}", what, problem_)};
  }

 private:
  template <class T>
  bool add(T&& value) {
    return place(Value(std::forward<T>(value))) != nullptr;
  }
  /// Where the value came to lie; null: one too many.
  Value* place(Value value) {
    if (++count_ > limits_.values_max) {
      code_ = Errc::kResourceExhausted;
      static_cast<void>(refuse(fmt::format("more than {} values", limits_.values_max)));
      return nullptr;
    }
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*field_ = std::move(value));
    auto& list = open_.back()->get_ref<Value::array_t&>();
    return &list.emplace_back(std::move(value));
  }
  bool open(Value value) {
    if (open_.size() == limits_.depth_max) {
      code_ = Errc::kResourceExhausted;
      return refuse(fmt::format("nested deeper than {}", limits_.depth_max));
    }
    Value* placed = place(std::move(value));
    if (placed == nullptr) return false;
    open_.push_back(placed);  // stays where it is: its container grows only after it was closed
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  const Limits& limits_;
  Value root_;
  std::vector<Value*> open_;
  Value* field_ = nullptr;  ///< of the innermost object
  std::size_t count_ = 0;
  Errc code_ = Errc::kInvalidArgument;
  std::string problem_ = "not JSON";
};

tl::unexpected<Error> wrong_type(std::string_view key, std::string_view wanted,
                                 const Value* found) {
  return fail(Errc::kInvalidArgument,
              found == nullptr
                  ? fmt::format("'{}' is missing: want {}", key, wanted)
                  : fmt::format("'{}' must be {}, not {}", key, wanted, found->type_name()));
}

template <class T>
Result<T> needed(Result<std::optional<T>> found, std::string_view key, std::string_view wanted) {
  if (!found) return fail(std::move(found).error());
  if (!*found) return wrong_type(key, wanted, nullptr);
  return std::move(**found);
}

constexpr std::string_view kText = "a string", kWhole = "a whole number",
                           kNatural = "a whole number of at least 0", kTruth = "true or false";

}  // namespace

Result<nlohmann::json> parse(std::string_view text, std::string_view what, const Limits& limits) {
  if (text.size() > limits.bytes_max) {
    return fail(Errc::kResourceExhausted, fmt::format("{}: {} bytes, at most {} are read", what,
                                                      text.size(), limits.bytes_max));
  }
  Builder builder(limits);
  if (!Value::sax_parse(text, &builder)) return fail(std::move(builder).error(what));
  return builder.take();
}

std::string text_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

const nlohmann::json* find(const nlohmann::json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<std::optional<std::string>> optional_string(const Value& object, std::string_view key) {
  const Value* found = find(object, key);
  if (found == nullptr) return std::optional<std::string>();
  if (!found->is_string()) return wrong_type(key, kText, found);
  return std::optional(found->get<std::string>());
}

Result<std::optional<std::uint64_t>> optional_u64(const Value& object, std::string_view key) {
  const Value* found = find(object, key);
  if (found == nullptr) return std::optional<std::uint64_t>();
  if (!found->is_number_unsigned()) return wrong_type(key, kNatural, found);
  return std::optional(found->get<std::uint64_t>());
}

Result<std::optional<std::int64_t>> optional_i64(const Value& object, std::string_view key) {
  const Value* found = find(object, key);
  if (found == nullptr) return std::optional<std::int64_t>();
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool fits = found->is_number_unsigned() ? found->get<std::uint64_t>() <= kMost
                                                : found->is_number_integer();
  if (!fits) return wrong_type(key, kWhole, found);
  return std::optional(found->get<std::int64_t>());
}

Result<std::optional<bool>> optional_bool(const Value& object, std::string_view key) {
  const Value* found = find(object, key);
  if (found == nullptr) return std::optional<bool>();
  if (!found->is_boolean()) return wrong_type(key, kTruth, found);
  return std::optional(found->get<bool>());
}

Result<std::string> required_string(const Value& object, std::string_view key) {
  return needed(optional_string(object, key), key, kText);
}
Result<std::uint64_t> required_u64(const Value& object, std::string_view key) {
  return needed(optional_u64(object, key), key, kNatural);
}
Result<std::int64_t> required_i64(const Value& object, std::string_view key) {
  return needed(optional_i64(object, key), key, kWhole);
}
Result<bool> required_bool(const Value& object, std::string_view key) {
  return needed(optional_bool(object, key), key, kTruth);
}

}  // namespace imex::json
