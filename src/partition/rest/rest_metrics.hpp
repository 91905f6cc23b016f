/// The usual series of an HTTP server, under the names that NICo gives them. Not for other rooms.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "metrics/registry.hpp"
#include "net/http/server.hpp"

namespace imex::partition {

/// Used by the one thread of the network.
class RestMetrics {
 public:
  explicit RestMetrics(metrics::Registry& registry) : registry_(registry) {}

  void record(const net::http::Exchange& exchange);

 private:
  struct Series {
    metrics::Counter requests;
    metrics::Histogram duration, request_bytes, response_bytes;
  };
  [[nodiscard]] const Series& series_of(const net::http::Exchange& exchange);

  using Key = std::tuple<std::string_view, net::http::Method, unsigned>;  ///< routes outlive this
  metrics::Registry& registry_;
  std::map<Key, Series> series_;
};

}  // namespace imex::partition
