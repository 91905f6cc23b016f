#include "metrics/registry.hpp"

#include <algorithm>
#include <map>
#include <variant>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "base/assert.hpp"
#include "base/mutex.hpp"

namespace imex::metrics {

namespace {

/// The parts of prometheus-cpp that compute and write; which series exist is decided here, because
/// its registry throws on a clash and has no bound.
using Series =
    std::variant<std::unique_ptr<prometheus::Counter>, std::unique_ptr<prometheus::Gauge>,
                 std::unique_ptr<prometheus::Histogram>, std::unique_ptr<LatencyHistogram>>;

struct Family {
  std::string help;
  prometheus::MetricType type = prometheus::MetricType::Untyped;
  std::vector<double> bounds{};
  std::map<Labels, Series> series{};
};

bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Valid for metrics and, having no colon, for labels.
bool is_name(const std::string& name) noexcept {
  return !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

/// Sorted by name, with values that every scraper accepts.
Labels normalised(Labels labels) {
  for (auto& [name, value] : labels) {
    IMEX_ASSERT(is_name(name) && !name.starts_with("__"), "name of a label");
    std::replace_if(value.begin(), value.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  }
  std::sort(labels.begin(), labels.end());
  const auto twice =
      std::adjacent_find(labels.begin(), labels.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  IMEX_ASSERT(twice == labels.end(), "a label is given once");
  return labels;
}

prometheus::ClientMetric collect_latency(const LatencyHistogram& histogram) {
  constexpr double kSecondsPerNano = 1e-9;
  const LatencyHistogram::Snapshot now = histogram.snapshot();
  prometheus::ClientMetric metric;
  metric.summary.sample_count = now.count;
  metric.summary.sample_sum = static_cast<double>(now.sum_ns) * kSecondsPerNano;
  for (const double quantile : {0.5, 0.99}) {
    prometheus::ClientMetric::Quantile entry;
    entry.quantile = quantile;
    entry.value = static_cast<double>(now.percentile(quantile).count()) * kSecondsPerNano;
    metric.summary.quantile.push_back(entry);
  }
  return metric;
}

prometheus::ClientMetric collect(const Series& series, const Labels& labels) {
  prometheus::ClientMetric metric = std::visit(
      [](const auto& one) {
        if constexpr (std::is_same_v<decltype(*one), LatencyHistogram&>)
          return collect_latency(*one);
        else
          return one->Collect();
      },
      series);
  for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  return metric;
}

}  // namespace

struct Registry::State {
  /// The series of a name and labels, made by `make` if there is none yet.
  template <class T, class Make>
  T* find_or_make(const std::string& name, Family described, const Labels& given, Make make)
      IMEX_EXCLUDES(mutex) {
    IMEX_ASSERT(is_name(name), "name of a metric");
    Labels labels = normalised(given);
    const prometheus::MetricType type = described.type;
    const MutexLock lock(mutex);
    Family& family = families.try_emplace(name, std::move(described)).first->second;
    IMEX_ASSERT(family.type == type, "a metric is of one kind");
    auto entry = family.series.find(labels);
    if (entry == family.series.end()) {
      if (family.series.size() >= kSeriesMax) {
        for (auto& label : labels) label.second = "other";
      }
      entry = family.series.try_emplace(std::move(labels)).first;
      auto& slot = entry->second;
      if (!std::holds_alternative<std::unique_ptr<T>>(slot) ||
          !std::get<std::unique_ptr<T>>(slot)) {
        slot = make(family);
      }
    }
    return std::get<std::unique_ptr<T>>(entry->second).get();
  }

  mutable Mutex mutex;
  std::map<std::string, Family> families IMEX_GUARDED_BY(mutex);
};

void Counter::add(double amount) const {
  IMEX_ASSERT(amount >= 0, "a counter only grows");
  static_cast<prometheus::Counter*>(series_)->Increment(amount);
}
double Counter::value() const { return static_cast<prometheus::Counter*>(series_)->Value(); }

void Gauge::set(double value) const { static_cast<prometheus::Gauge*>(series_)->Set(value); }
void Gauge::add(double amount) const {
  static_cast<prometheus::Gauge*>(series_)->Increment(amount);
}
double Gauge::value() const { return static_cast<prometheus::Gauge*>(series_)->Value(); }

void Histogram::observe(double value) const {
  static_cast<prometheus::Histogram*>(series_)->Observe(value);
}

Registry::Registry() : state_(std::make_unique<State>()) {}
Registry::~Registry() = default;

Counter Registry::counter(const std::string& name, const std::string& help, const Labels& labels) {
  return Counter(state_->find_or_make<prometheus::Counter>(
      name, {help, prometheus::MetricType::Counter}, labels,
      [](const Family&) { return std::make_unique<prometheus::Counter>(); }));
}

Gauge Registry::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  return Gauge(state_->find_or_make<prometheus::Gauge>(
      name, {help, prometheus::MetricType::Gauge}, labels,
      [](const Family&) { return std::make_unique<prometheus::Gauge>(); }));
}

Histogram Registry::histogram(const std::string& name, const std::string& help,
                              const std::vector<double>& bounds, const Labels& labels) {
  IMEX_ASSERT(std::is_sorted(bounds.begin(), bounds.end()), "bounds of a histogram grow");
  return Histogram(state_->find_or_make<prometheus::Histogram>(
      name, {help, prometheus::MetricType::Histogram, bounds}, labels,
      [](const Family& family) { return std::make_unique<prometheus::Histogram>(family.bounds); }));
}

LatencyHistogram& Registry::latency(const std::string& name, const std::string& help,
                                    const Labels& labels) {
  return *state_->find_or_make<LatencyHistogram>(
      name, {help, prometheus::MetricType::Summary}, labels,
      [](const Family&) { return std::make_unique<LatencyHistogram>(); });
}

void Registry::remove(const std::string& name, const Labels& labels) {
  const Labels key = normalised(labels);
  const MutexLock lock(state_->mutex);
  const auto family = state_->families.find(name);
  if (family != state_->families.end()) family->second.series.erase(key);
}

std::string Registry::text() const {
  std::vector<prometheus::MetricFamily> all;
  {
    const MutexLock lock(state_->mutex);
    for (const auto& [name, family] : state_->families) {
      if (family.series.empty()) continue;
      prometheus::MetricFamily shown;
      shown.name = name;
      shown.help = family.help;
      shown.type = family.type;
      for (const auto& [labels, series] : family.series)
        shown.metric.push_back(collect(series, labels));
      all.push_back(std::move(shown));
    }
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace imex::metrics
