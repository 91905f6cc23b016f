/// Which handler answers which path.
///
///     Router router;
///     router.add(Method::kGet, "/machine/{id}", [](const Request& request) {
///       return Response::text(200, std::string(request.parameter("id")));
///     });
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "net/http/message.hpp"

namespace imex::net::http {

/// Runs on a thread of the server's pool, many at a time. What it throws becomes a 500.
using Handler = std::function<Response(const Request&)>;

struct RouteOptions {
  /// Longest body in bytes; 0: the server's limit.
  std::size_t body_bytes_max = 0;
  /// Answered on the thread of the network, without a queue in between: only for what neither
  /// blocks nor computes, such as health.
  bool immediate = false;
};

/// A pattern is made of segments: literal, "{name}" (one segment), or "{name...}" at the end (all
/// that is left, at least one segment). A literal wins over a name. A HEAD is answered by the GET.
/// Filled before the server starts, then only read.
class Router {
 public:
  Router();
  ~Router();
  Router(Router&&) noexcept;
  Router& operator=(Router&&) noexcept;

  /// A pattern that is malformed, or there already with this method, is our own mistake.
  void add(Method method, std::string_view pattern, Handler handler, RouteOptions options = {});

  struct Route {
    std::string pattern;
    Handler handler;
    RouteOptions options;
  };
  struct Match {
    const Route* route = nullptr;
    std::vector<std::pair<std::string_view, std::string>> parameters;
  };
  struct NoSuchPath {};
  struct NoSuchMethod {
    std::string allow;  ///< for the header Allow: "GET, HEAD, POST"
  };
  struct BadPath {
    std::string problem;
  };
  using Found = std::variant<Match, NoSuchPath, NoSuchMethod, BadPath>;
  /// `path`: as sent, without the query.
  [[nodiscard]] Found find(Method method, std::string_view path) const;

 private:
  struct Node;
  std::unique_ptr<Node> root_;
};

}  // namespace imex::net::http
