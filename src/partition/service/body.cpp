#include "body.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "json/json.hpp"
#include "partition/model/json_writer.hpp"

namespace imex::partition {
namespace {

constexpr std::size_t kLabelsMax = 10;
constexpr std::size_t kLabelLengthMax = 255;
constexpr json::Limits kBodyLimits{.bytes_max = 10U << 20U, .depth_max = 16, .values_max = 100'000};

bool same_key(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) ==
                  std::tolower(static_cast<unsigned char>(y));
         });
}

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::optional<std::string> two_spellings(const nlohmann::json& object) {
  std::map<std::string, const nlohmann::json*> seen;
  for (const auto& [key, value] : object.items()) {
    std::string lower = key;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto [at, fresh] = seen.emplace(std::move(lower), &value);
    if (!fresh && *at->second != value) return key;
  }
  return std::nullopt;
}

/// Two or four digits at `at`.
bool digits(std::string_view text, std::size_t at, std::size_t count, int& out) {
  if (at + count > text.size()) return false;
  const char* begin = text.data() + at;
  for (const char* c = begin; c != begin + count; ++c)
    if (*c < '0' || *c > '9') return false;
  std::from_chars(begin, begin + count, out);
  return true;
}

}  // namespace

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

std::optional<WallTime> parse_time(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!digits(text, 0, 4, year) || !digits(text, 5, 2, month) || !digits(text, 8, 2, day) ||
      !digits(text, 11, 2, hour) || !digits(text, 14, 2, minute) || !digits(text, 17, 2, second) ||
      text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != 't') || text[13] != ':' ||
      text[16] != ':')
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  WallTime time = std::chrono::sys_days(date) + std::chrono::hours(hour) +
                  std::chrono::minutes(minute) + std::chrono::seconds(second);
  std::string_view rest = text.substr(19);
  if (rest.starts_with('.')) {
    std::size_t length = 1;
    std::int64_t unit = 100'000;
    for (; length < rest.size() && rest[length] >= '0' && rest[length] <= '9'; ++length) {
      time += std::chrono::microseconds((rest[length] - '0') * unit);
      unit /= 10;
    }
    if (length == 1) return std::nullopt;
    rest.remove_prefix(length);
  }
  if (rest == "Z" || rest == "z") return time;
  int off_hour = 0, off_minute = 0;
  if (rest.size() != 6 || (rest[0] != '+' && rest[0] != '-') || rest[3] != ':' ||
      !digits(rest, 1, 2, off_hour) || !digits(rest, 4, 2, off_minute) || off_hour > 23 ||
      off_minute > 59)
    return std::nullopt;
  const auto offset = std::chrono::hours(off_hour) + std::chrono::minutes(off_minute);
  return rest[0] == '+' ? time - offset : time + offset;
}

Checked<Body> Body::parse(std::string_view text) {
  auto parsed = json::parse(text, "request body", kBodyLimits);
  if (!parsed) return refuse(400, "the request body cannot be read: " + parsed.error().message);
  return of(*parsed, "");
}

Checked<Body> Body::of(const nlohmann::json& object, std::string prefix) {
  if (!object.is_object())
    return refuse(400, prefix.empty() ? "the request body must be a JSON object"
                                      : prefix + " must hold JSON objects");
  if (const auto twice = two_spellings(object))
    return refuse_field(*twice, "is given twice, in two spellings and with two values");
  Body body;
  body.json_ = object;
  body.prefix_ = std::move(prefix);
  return body;
}

const nlohmann::json* Body::find(std::string_view field) const {
  // The exact spelling is by far the most frequent.
  auto found = json_.find(std::string(field));
  if (found == json_.end())
    for (auto it = json_.begin(); it != json_.end(); ++it)
      if (same_key(it.key(), field)) found = it;
  if (found == json_.end() || found->is_null()) return nullptr;
  return &*found;
}

void Body::wrong(std::string_view field, std::string why) {
  problems_.emplace(prefix_.empty() ? std::string(field) : prefix_, std::move(why));
}

void Body::require(std::string_view field) {
  if (!has(field)) wrong(field, "is required");
}

void Body::merge(const Body& part) {
  problems_.insert(part.problems_.begin(), part.problems_.end());
}

Checked<void> Body::check() const {
  if (problems_.empty()) return {};
  return refuse(invalid(problems_));
}

std::optional<std::string> Body::text(std::string_view field, std::size_t length_max) {
  const nlohmann::json* value = find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    wrong(field, fmt::format("must be a string, not {}", value->type_name()));
    return std::nullopt;
  }
  const auto& text = value->get_ref<const std::string&>();
  if (characters(text) > length_max) {
    wrong(field,
          fmt::format("must have at most {} characters, has {}", length_max, characters(text)));
    return std::nullopt;
  }
  if (text.find('\0') != std::string::npos) {
    wrong(field, "must not contain the character NUL");
    return std::nullopt;
  }
  return text;
}

std::optional<std::string> Body::name(std::string_view field, std::size_t length_max) {
  auto name = text(field, length_max);
  if (!name) return std::nullopt;
  if (characters(*name) < 2) {
    wrong(field, fmt::format("must have 2 to {} characters", length_max));
    return std::nullopt;
  }
  if (is_space(name->front()) || is_space(name->back())) {
    wrong(field, "must not begin or end with white space");
    return std::nullopt;
  }
  return name;
}

std::optional<Uuid> Body::uuid(std::string_view field) {
  const auto value = text(field, 64);
  if (!value) return std::nullopt;
  auto id = Uuid::parse(*value);
  if (!id) {
    wrong(field, "must be a UUID");
    return std::nullopt;
  }
  return *id;
}

std::optional<bool> Body::boolean(std::string_view field) {
  const nlohmann::json* value = find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    wrong(field, fmt::format("must be true or false, not {}", value->type_name()));
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::int64_t> Body::integer(std::string_view field, std::int64_t min,
                                          std::int64_t max) {
  const nlohmann::json* value = find(field);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_unsigned()
                        ? value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                        : value->is_number_integer();
  if (!fits || value->get<std::int64_t>() < min || value->get<std::int64_t>() > max) {
    wrong(field, fmt::format("must be an integer from {} to {}", min, max));
    return std::nullopt;
  }
  return value->get<std::int64_t>();
}

std::optional<Labels> Body::labels(std::string_view field) {
  const nlohmann::json* value = find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) {
    wrong(field, "must be an object of strings");
    return std::nullopt;
  }
  if (value->size() > kLabelsMax) {
    wrong(field, fmt::format("must have at most {} entries, has {}", kLabelsMax, value->size()));
    return std::nullopt;
  }
  Labels labels;
  for (const auto& [key, text] : value->items()) {
    const bool good = text.is_string() && !key.empty() && characters(key) <= kLabelLengthMax &&
                      characters(text.get_ref<const std::string&>()) <= kLabelLengthMax &&
                      key.find('\0') == std::string::npos &&
                      text.get_ref<const std::string&>().find('\0') == std::string::npos;
    if (!good) {
      wrong(field, "keys must have 1 to 255 characters, values be strings of up to 255");
      return std::nullopt;
    }
    labels.emplace(key, text.get_ref<const std::string&>());
  }
  return labels;
}

const nlohmann::json* Body::array(std::string_view field, std::size_t length_max) {
  const nlohmann::json* value = find(field);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) {
    wrong(field, fmt::format("must be an array, not {}", value->type_name()));
    return nullptr;
  }
  if (value->size() > length_max) {
    wrong(field, fmt::format("must have at most {} entries, has {}", length_max, value->size()));
    return nullptr;
  }
  return value;
}

void Body::object_or_null(std::string_view field) {
  const nlohmann::json* value = find(field);
  if (value == nullptr || value->is_object()) return;
  wrong(field, fmt::format("must be an object, not {}", value->type_name()));
}

std::optional<WallTime> Body::time(std::string_view field) {
  const auto value = text(field, 64);
  if (!value) return std::nullopt;
  const auto time = parse_time(*value);
  if (!time) wrong(field, "must be a time as in 2026-01-31T12:00:00Z");
  return time;
}

std::string Body::keep(std::initializer_list<std::string_view> fields,
                       const std::string& former_json) const {
  nlohmann::json kept = nlohmann::json::parse(former_json, nullptr, false);
  if (!kept.is_object()) kept = nlohmann::json::object();
  for (const std::string_view field : fields)
    if (const nlohmann::json* value = find(field)) kept[std::string(field)] = *value;
  return json::text_of(kept);
}

Answer writing_body(Store& store, const Request& request, Checked<void> (*need)(const Caller&),
                    const std::function<Checked<Answer>(WriteTransaction&, Body&)>& work) {
  if (auto role = need(request.caller); !role) return answer_of(refuse(role.error()));
  Checked<Body> body = Body::parse(request.body);
  if (!body) return answer_of(refuse(body.error()));
  return writing(store, request, [&](WriteTransaction& t) { return work(t, *body); });
}

// ---- Refusals ----------------------------------------------------------------------------------

Refusal refusal_of(const Error& error) {
  const auto status = [&] {
    switch (error.code) {
      case Errc::kInvalidArgument:
        return 400;
      case Errc::kPermissionDenied:
        return 403;
      case Errc::kNotFound:
        return 404;
      case Errc::kAlreadyExists:
        return 409;
      case Errc::kFailedPrecondition:
        return 412;
      case Errc::kUnsupported:
        return 501;
      case Errc::kResourceExhausted:
      case Errc::kUnavailable:
      case Errc::kDeadlineExceeded:
        return 503;
      default:
        return 500;
    }
  }();
  // What happened inside the database is for the log, not for tenants.
  if (status == 500) return {500, "internal error", "null"};
  return {status, error.hint.empty() ? error.message : error.message + "; " + error.hint, "null"};
}

Refusal invalid(const std::map<std::string, std::string>& fields) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [field, why] : fields) json.member(field, why);
  std::string message = "the request is not valid:";
  for (const auto& [field, why] : fields) message += fmt::format(" {} {};", field, why);
  message.pop_back();
  return {400, std::move(message), std::move(json.end_object()).text()};
}

std::string id_data(const std::string& id) {
  JsonWriter json;
  json.begin_object().member("id", id).end_object();
  return std::move(json).text();
}

}  // namespace imex::partition
