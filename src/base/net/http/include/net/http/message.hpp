/// What HTTP carries: methods, header fields, queries, requests and responses; plain values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "net/http/response_stream.hpp"

namespace imex::net::http {

enum class Method : std::uint8_t {
  kGet,
  kHead,
  kPost,
  kPut,
  kPatch,
  kDelete,
  kOptions,
  kTrace,
  kConnect
};

[[nodiscard]] std::string_view method_name(Method method) noexcept;
[[nodiscard]] std::optional<Method> method_from_name(std::string_view name) noexcept;

/// "Not Found" of 404; "Unknown" of a number that HTTP does not know.
[[nodiscard]] std::string_view status_text(unsigned status) noexcept;

/// Header fields in the order they came. Names compare without regard to case.
class Headers {
 public:
  struct Field {
    std::string name, value;
  };

  void add(std::string name, std::string value);
  /// Replaces all fields of this name.
  void set(std::string_view name, std::string value);
  /// The first of this name.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;
  [[nodiscard]] std::size_t count(std::string_view name) const noexcept;

  [[nodiscard]] auto begin() const noexcept { return fields_.begin(); }
  [[nodiscard]] auto end() const noexcept { return fields_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return fields_.size(); }

 private:
  std::vector<Field> fields_;
};

/// "a%2Fb" to "a/b". Errors: kInvalidArgument (a % without two hexadecimal digits, a NUL).
[[nodiscard]] Result<std::string> percent_decoded(std::string_view text, bool plus_is_space);
/// All but letters, digits and "-._~" as %XX: fit for one path segment or one value of a query.
[[nodiscard]] std::string percent_encoded(std::string_view text);

/// The parameters behind the '?', decoded, in order; a name may come more than once.
class Query {
 public:
  static constexpr std::size_t kItemsMax = 256;
  using Item = std::pair<std::string, std::string>;

  /// Errors: kInvalidArgument.
  [[nodiscard]] static Result<Query> parse(std::string_view raw);

  /// The first of this name.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;
  [[nodiscard]] std::vector<std::string_view> all(std::string_view name) const;
  [[nodiscard]] const std::vector<Item>& items() const noexcept { return items_; }
  void add(std::string name, std::string value);

 private:
  std::vector<Item> items_;
};

struct Peer {
  std::string address;                 ///< "10.0.0.3:51112", "[::1]:4000", or "unix"
  std::string certificate_subject;     ///< RFC 2253, of a verified client certificate; else empty
  std::optional<std::uint32_t> uid{};  ///< of a process that came through a Unix socket
};

struct Request {
  Method method = Method::kGet;
  std::string target;  ///< as sent
  std::string path;    ///< as sent, without the query
  std::string_view
      route;  ///< the pattern that matched: "/machine/{id}"; lives as long as the server
  std::vector<std::pair<std::string_view, std::string>> parameters;  ///< of the path, decoded
  Query query;
  Headers headers;
  std::string body;
  Peer peer;
  /// When the one who asks will have given up; a handler that waits ends before.
  std::chrono::steady_clock::time_point deadline;

  /// Value of a parameter of the path; empty if the route has none of this name.
  [[nodiscard]] std::string_view parameter(std::string_view name) const noexcept;
};

struct Response {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body{};
  Headers headers{};
  /// Instead of a body: whatever is pushed into it, for as long as it is open.
  ResponseStream stream{};

  [[nodiscard]] static Response text(unsigned status, std::string body);
  [[nodiscard]] static Response json(unsigned status, std::string body);
  [[nodiscard]] static Response streamed(std::string content_type, ResponseStream stream);
};

}  // namespace imex::net::http
