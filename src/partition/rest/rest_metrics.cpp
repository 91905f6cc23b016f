#include "rest_metrics.hpp"

namespace imex::partition {

namespace {

const std::vector<double> kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                      0.25,  0.5,    1,     2.5,  5,     10,   60};
const std::vector<double> kBytes = {1024, 10'240, 102'400, 1'048'576, 10'485'760};

}  // namespace

void RestMetrics::record(const net::http::Exchange& exchange) {
  const Series& series = series_of(exchange);
  series.requests.add();
  series.duration.observe(std::chrono::duration<double>(exchange.duration).count());
  series.request_bytes.observe(static_cast<double>(exchange.request_bytes));
  series.response_bytes.observe(static_cast<double>(exchange.response_bytes));
}

const RestMetrics::Series& RestMetrics::series_of(const net::http::Exchange& exchange) {
  const Key key{exchange.route, exchange.method, exchange.status};
  if (const auto found = series_.find(key); found != series_.end()) return found->second;
  // The route and not the path: as many series as there are routes, whatever is asked for.
  const metrics::Labels labels = {
      {"code", std::to_string(exchange.status)},
      {"method", std::string(net::http::method_name(exchange.method))},
      {"url", exchange.route.empty() ? "unknown" : std::string(exchange.route)}};
  const Series made{
      registry_.counter("nico_api_requests_total", "Requests answered.", labels),
      registry_.histogram("nico_api_request_duration_seconds",
                          "From the first byte of a request to the last of its answer.", kSeconds,
                          labels),
      registry_.histogram("nico_api_request_size_bytes", "Bodies of requests.", kBytes, labels),
      registry_.histogram("nico_api_response_size_bytes", "Bodies of answers.", kBytes, labels)};
  return series_.emplace(key, made).first->second;
}

}  // namespace imex::partition
