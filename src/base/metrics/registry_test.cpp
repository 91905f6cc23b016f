#include "metrics/registry.hpp"

#include <algorithm>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace imex::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RegistryTest, TextIsPrometheusFormatInOrderOfNames) {
  Registry registry;
  registry.gauge("imex_node_peers_count", "Connected peers.").set(17);
  registry.counter("imex_imports_total", "Imports.", {{"channel", "3"}, {"a", "b"}}).add(2);
  registry.counter("imex_imports_total", "Imports.", {{"a", "b"}, {"channel", "3"}}).add();
  EXPECT_EQ(registry.text(),
            "# HELP imex_imports_total Imports.\n"
            "# TYPE imex_imports_total counter\n"
            "imex_imports_total{a=\"b\",channel=\"3\"} 3\n"
            "# HELP imex_node_peers_count Connected peers.\n"
            "# TYPE imex_node_peers_count gauge\n"
            "imex_node_peers_count 17\n");
  EXPECT_EQ(Registry().text(), "");
}

TEST(RegistryTest, GaugesGoBothWays) {
  Registry registry;
  const Gauge gauge = registry.gauge("imex_sessions_count", "Sessions.");
  gauge.set(5);
  gauge.add(-2);
  EXPECT_EQ(gauge.value(), 3);
  EXPECT_EQ(registry.gauge("imex_sessions_count", "").value(), 3) << "the same series";
}

TEST(RegistryTest, HistogramsCountUpToTheirBounds) {
  Registry registry;
  const Histogram histogram = registry.histogram("imex_batch_size", "Batch.", {1, 10});
  for (const double value : {0.5, 1.0, 5.0, 50.0}) histogram.observe(value);
  const std::string text = registry.text();
  EXPECT_THAT(text, HasSubstr("imex_batch_size_count 4\n"));
  EXPECT_THAT(text, HasSubstr("imex_batch_size_sum 56.5\n"));
  EXPECT_THAT(text, HasSubstr("imex_batch_size_bucket{le=\"1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("imex_batch_size_bucket{le=\"10\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("imex_batch_size_bucket{le=\"+Inf\"} 4\n"));
}

TEST(RegistryTest, LatenciesAreSummariesInSeconds) {
  Registry registry;
  LatencyHistogram& latency =
      registry.latency("imex_import_seconds", "Imports.", {{"result", "ok"}});
  for (int i = 0; i < 10; ++i) latency.record(Nanos(16));  // a bucket of its own
  EXPECT_EQ(&registry.latency("imex_import_seconds", "Imports.", {{"result", "ok"}}), &latency);
  const std::string text = registry.text();
  EXPECT_THAT(text, HasSubstr("# TYPE imex_import_seconds summary\n"));
  EXPECT_THAT(text, HasSubstr("imex_import_seconds_count{result=\"ok\"} 10\n"));
  EXPECT_THAT(text, HasSubstr("imex_import_seconds_sum{result=\"ok\"} 1.6"));
  EXPECT_THAT(text, HasSubstr("imex_import_seconds{result=\"ok\",quantile=\"0.99\"} 1.6"));
}

TEST(RegistryTest, LabelValuesFromOutsideCannotBreakTheText) {
  Registry registry;
  registry.gauge("imex_peer_up", "Up.", {{"name", "a\"b\\c\nimex_fake 1\xff"}}).set(1);
  EXPECT_THAT(registry.text(), HasSubstr("imex_peer_up{name=\"a\\\"b\\\\c?imex_fake 1?\"} 1\n"));
}

TEST(RegistryTest, RemovedSeriesAreGoneAndMayComeBack) {
  Registry registry;
  registry.gauge("imex_peer_up", "Up.", {{"peer", "1"}}).set(1);
  registry.gauge("imex_peer_up", "Up.", {{"peer", "2"}}).set(1);
  registry.remove("imex_peer_up", {{"peer", "1"}});
  registry.remove("imex_peer_up", {{"peer", "9"}});
  registry.remove("imex_none", {});
  EXPECT_THAT(registry.text(), Not(HasSubstr("peer=\"1\"")));
  registry.remove("imex_peer_up", {{"peer", "2"}});
  EXPECT_EQ(registry.text(), "") << "no heading without series";
  EXPECT_EQ(registry.gauge("imex_peer_up", "Up.", {{"peer", "1"}}).value(), 0);
}

TEST(RegistryTest, SeriesAreBounded) {
  Registry registry;
  constexpr std::size_t kExtra = 10;
  for (std::size_t i = 0; i < Registry::kSeriesMax + kExtra; ++i) {
    registry.counter("imex_peer_lost_total", "Lost.", {{"peer", std::to_string(i)}}).add();
  }
  const std::string text = registry.text();
  EXPECT_THAT(text, HasSubstr("imex_peer_lost_total{peer=\"other\"} 10\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            static_cast<std::ptrdiff_t>(Registry::kSeriesMax + 1 + 2));
  EXPECT_EQ(registry.counter("imex_peer_lost_total", "", {{"peer", "5"}}).value(), 1);
}

TEST(RegistryTest, ThreadsShareARegistry) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 1000;
  Registry registry;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kRounds; ++i) {
        registry.counter("imex_shared_total", "Shared.").add();
        registry.gauge("imex_own", "Own.", {{"thread", std::to_string(thread)}}).set(i);
        if (i % 100 == 0) {
          EXPECT_THAT(registry.text(), HasSubstr("imex_shared_total "));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.counter("imex_shared_total", "").value(), kThreads * kRounds);
}

TEST(RegistryDeathTest, MistakesOfOurOwnStopTheProcess) {
  Registry registry;
  static_cast<void>(registry.gauge("imex_kind", ""));
  EXPECT_DEATH(static_cast<void>(registry.counter("imex_kind", "")), "one kind");
  EXPECT_DEATH(static_cast<void>(registry.counter("imex kind", "")), "name of a metric");
  EXPECT_DEATH(static_cast<void>(registry.counter("imex_a", "", {{"le bel", ""}})),
               "name of a label");
  EXPECT_DEATH(static_cast<void>(registry.counter("imex_a", "", {{"a", ""}, {"a", ""}})),
               "given once");
  EXPECT_DEATH(registry.counter("imex_b", "").add(-1), "only grows");
}

}  // namespace
}  // namespace imex::metrics
