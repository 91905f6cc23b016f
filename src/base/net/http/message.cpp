#include "net/http/message.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.hpp"

namespace imex::net::http {

namespace {

constexpr std::array<std::string_view, 9> kMethodNames = {
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"};

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view method_name(Method method) noexcept {
  return kMethodNames[static_cast<std::size_t>(method)];
}

std::optional<Method> method_from_name(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kMethodNames, name);
  if (found == kMethodNames.end()) return std::nullopt;
  return static_cast<Method>(found - kMethodNames.begin());
}

std::string_view status_text(unsigned status) noexcept {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 426:
      return "Upgrade Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

void Headers::add(std::string name, std::string value) {
  fields_.push_back({std::move(name), std::move(value)});
}

void Headers::set(std::string_view name, std::string value) {
  std::erase_if(fields_, [&](const Field& field) { return same_name(field.name, name); });
  add(std::string(name), std::move(value));
}

std::optional<std::string_view> Headers::find(std::string_view name) const noexcept {
  for (const Field& field : fields_) {
    if (same_name(field.name, name)) return field.value;
  }
  return std::nullopt;
}

std::size_t Headers::count(std::string_view name) const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(fields_, [&](const Field& f) { return same_name(f.name, name); }));
}

Result<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_space) c = ' ';
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return fail(Errc::kInvalidArgument,
                    fmt::format("'{}': a %% must be followed by two hexadecimal digits",
                                printable(text.substr(0, 64))));
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return fail(Errc::kInvalidArgument, "a NUL character in the address");
    out.push_back(c);
  }
  return out;
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out.push_back(c);
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Result<Query> Query::parse(std::string_view raw) {
  Query query;
  while (!raw.empty()) {
    const std::string_view item = raw.substr(0, raw.find('&'));
    raw.remove_prefix(std::min(raw.size(), item.size() + 1));
    if (item.empty()) continue;
    if (query.items_.size() == kItemsMax) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("more than {} parameters in the query", kItemsMax));
    }
    const std::string_view name = item.substr(0, item.find('='));
    const std::string_view value = item.substr(std::min(item.size(), name.size() + 1));
    IMEX_TRY(std::string decoded_name, percent_decoded(name, true));
    IMEX_TRY(std::string decoded_value, percent_decoded(value, true));
    query.add(std::move(decoded_name), std::move(decoded_value));
  }
  return query;
}

std::optional<std::string_view> Query::find(std::string_view name) const noexcept {
  for (const auto& [key, value] : items_) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::vector<std::string_view> Query::all(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const auto& [key, value] : items_) {
    if (key == name) values.emplace_back(value);
  }
  return values;
}

void Query::add(std::string name, std::string value) {
  items_.emplace_back(std::move(name), std::move(value));
}

std::string_view Request::parameter(std::string_view name) const noexcept {
  for (const auto& [key, value] : parameters) {
    if (key == name) return value;
  }
  return {};
}

Response Response::text(unsigned status, std::string body) {
  return {.status = status, .body = std::move(body)};
}

Response Response::json(unsigned status, std::string body) {
  return {.status = status, .content_type = "application/json", .body = std::move(body)};
}

Response Response::streamed(std::string content_type, ResponseStream stream) {
  return {.content_type = std::move(content_type), .stream = std::move(stream)};
}

}  // namespace imex::net::http
