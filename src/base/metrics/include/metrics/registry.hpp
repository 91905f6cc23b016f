/// Metrics of a daemon and their Prometheus text.
///
///     Gauge peers = registry.gauge("imex_node_peers_count", "Connected peers.");
///     peers.set(17);
///     respond(registry.text(), metrics::kContentType);
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/latency_histogram.hpp"

namespace imex::metrics {

inline constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

/// Names are our own (checked by assertion); values may come from outside: what is not printable
/// ASCII becomes '?'.
using Labels = std::vector<std::pair<std::string, std::string>>;

/// Handles are copied freely and thread-safe, and live as long as their registry and series.
class Counter {
 public:
  /// Only grows; `amount` >= 0.
  void add(double amount = 1) const;
  [[nodiscard]] double value() const;

 private:
  friend class Registry;
  explicit Counter(void* series) noexcept : series_(series) {}
  void* series_;
};

class Gauge {
 public:
  void set(double value) const;
  void add(double amount) const;
  [[nodiscard]] double value() const;

 private:
  friend class Registry;
  explicit Gauge(void* series) noexcept : series_(series) {}
  void* series_;
};

class Histogram {
 public:
  void observe(double value) const;

 private:
  friend class Registry;
  explicit Histogram(void* series) noexcept : series_(series) {}
  void* series_;
};

/// Owner of all metrics. Thread-safe. Asking again for a name with the same labels gives the same
/// series; one name is of one kind.
class Registry {
 public:
  /// Series per name; beyond, all further ones share a series whose label values are "other".
  static constexpr std::size_t kSeriesMax = 1024;

  Registry();
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  [[nodiscard]] Counter counter(const std::string& name, const std::string& help,
                                const Labels& labels = {});
  [[nodiscard]] Gauge gauge(const std::string& name, const std::string& help,
                            const Labels& labels = {});
  /// `bounds`: upper ends of the buckets, growing; the first call of a name decides them.
  [[nodiscard]] Histogram histogram(const std::string& name, const std::string& help,
                                    const std::vector<double>& bounds, const Labels& labels = {});
  /// Shown as a summary in seconds with quantiles 0.5 and 0.99; let the name end in _seconds.
  [[nodiscard]] LatencyHistogram& latency(const std::string& name, const std::string& help,
                                          const Labels& labels = {});

  /// Takes a series out, for a peer or channel that is no more; its handles end. Unknown is fine.
  void remove(const std::string& name, const Labels& labels);

  /// Every metric in Prometheus's text format 0.0.4, names in order.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace imex::metrics
