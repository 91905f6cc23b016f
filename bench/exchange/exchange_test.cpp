#include "bench/exchange.hpp"

#include <atomic>
#include <barrier>
#include <thread>

#include <gmock/gmock.h>

#include "exchange/bench_cores.hpp"
#include "exchange/ruler.hpp"

namespace imex::bench {
namespace {

using testing::HasSubstr;

ExchangeOptions tiny(Operation operation) {
  const OperationFacts& facts = facts_of(operation);
  ExchangeOptions options;
  options.operation = operation;
  options.sizes = facts.extent == Extent::kNothing ? std::vector<std::uint64_t>{0}
                                                   : std::vector<std::uint64_t>{24, 49'152};
  options.in_place = facts.placing != Placing::kApart;
  options.iterations = 5;
  options.seconds = std::chrono::milliseconds(10);
  options.check_every = true;
  return options;
}

Result<ExchangeReport> run(const ExchangeOptions& options) {
  return measure_exchange(options, [](std::uint64_t) {});
}

void expect_right(const ExchangeOptions& options) {
  SCOPED_TRACE(std::string(facts_of(options.operation).name) + " of " +
               std::to_string(options.ranks) + (options.registered ? ", registered" : ""));
  const auto report = run(options);
  ASSERT_TRUE(report) << report.error().to_string();
  ASSERT_EQ(report->rows.size(), options.sizes.size());
  for (const ExchangeRow& row : report->rows) {
    EXPECT_EQ(row.time.n, 5U);
    EXPECT_GT(row.time.median_us, 0);
    EXPECT_GT(row.limit_us, 0);
    EXPECT_GT(row.round_trip_ns[0], 0);
    EXPECT_EQ(row.wrong, 0U) << row.first_wrong;
    EXPECT_GT(row.compared, 0U);
  }
  EXPECT_TRUE(check_results(options, *report));
}

TEST(MeasureExchangeTest, EveryOperationIsMeasuredAndVerified) {
  for (const OperationFacts& facts : operations()) {
    expect_right(tiny(facts.operation));
    auto three = tiny(facts.operation);
    three.ranks = 3;
    three.registered = true;
    if (facts.placing == Placing::kEither) three.in_place = false;
    expect_right(three);
  }
}

TEST(MeasureExchangeTest, EveryResultOfEveryRankIsCompared) {
  auto options = tiny(Operation::kAllGather);
  options.sizes = {4096};
  const auto every = run(options);
  ASSERT_TRUE(every) << every.error().to_string();
  // Of two ranks: 1,024 elements each, in 5 calls and the ones before and after.
  EXPECT_EQ(every->rows[0].compared, 2U * 1024U * 7U);
  options.check_every = false;
  const auto ends = run(options);
  ASSERT_TRUE(ends) << ends.error().to_string();
  EXPECT_EQ(ends->rows[0].compared, 2U * 1024U * 2U);
}

TEST(MeasureExchangeTest, OnlyTheRootOfAReductionHasAResult) {
  auto options = tiny(Operation::kReduce);
  options.sizes = {4096};
  options.check_every = false;
  const auto report = run(options);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->rows[0].compared, 1024U * 2U);
}

TEST(MeasureExchangeTest, TheAlgorithmIsTheOneThatWasTaken) {
  auto options = tiny(Operation::kAllReduce);
  options.sizes = {64};
  options.algorithm = Algorithm::kRing;
  const auto ring = run(options);
  ASSERT_TRUE(ring) << ring.error().to_string();
  EXPECT_EQ(ring->rows[0].algorithm, "ring");
  const auto barrier = run(tiny(Operation::kBarrier));
  ASSERT_TRUE(barrier) << barrier.error().to_string();
  EXPECT_EQ(barrier->rows[0].algorithm, "none");
}

TEST(MeasureExchangeTest, ManyMoreRanksThanCores) {
  auto options = tiny(Operation::kAllReduce);
  options.ranks = 20;
  expect_right(options);
}

TEST(MeasureExchangeTest, WhatCannotBeMeasuredNamesTheOption) {
  auto odd = tiny(Operation::kAllGather);
  odd.sizes = {12};
  EXPECT_THAT(run(odd).error().message, HasSubstr("--sizes 12"));
  EXPECT_THAT(run(odd).error().hint, HasSubstr("16"));
  auto place = tiny(Operation::kAllToAll);
  place.in_place = true;
  EXPECT_THAT(run(place).error().message, HasSubstr("--in-place"));
  auto one = tiny(Operation::kAllReduce);
  one.ranks = 1;
  EXPECT_THAT(run(one).error().message, HasSubstr("--ranks 1: 2 to 72"));
}

TEST(CheckResultsTest, AWrongElementIsAnErrorThatSaysWhere) {
  ExchangeReport report;
  report.rows.resize(2);
  report.rows[0].compared = 160;
  report.rows[1].bytes = 4096;
  report.rows[1].compared = 10'240;
  report.rows[1].wrong = 3;
  report.rows[1].first_wrong = "rank 1, element 17";
  const auto verdict = check_results(tiny(Operation::kAllReduce), report);
  ASSERT_FALSE(verdict);
  EXPECT_EQ(verdict.error().code, Errc::kDataLoss);
  EXPECT_EQ(verdict.error().message,
            "wrong results of all-reduce: 4 KiB: 3 of 10240 elements, first at rank 1, element 17");
}

/// Late entries that two ranks, as threads, saw in 50 calls of `barrier`.
std::uint64_t late_entries_of(const std::function<void()>& barrier) {
  const auto board = TickBoard::create(2, 4096);
  EXPECT_TRUE(board);
  std::atomic<std::uint64_t> late{0};
  const auto rank = [&](std::uint32_t number) {
    Ruler ruler(*board, number, bench_cores().size());
    for (int i = 0; i != 50; ++i) {
      const auto seen = ruler.late_entries([&]() -> Result<void> {
        barrier();
        return {};
      });
      EXPECT_TRUE(seen) << seen.error().to_string();
      late += seen.value_or(0);
      EXPECT_TRUE(ruler.meet());
    }
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  return late;
}

TEST(RulerTest, ABarrierThatIsNoneIsFoundOut) {
  std::barrier<> barrier(2);
  EXPECT_EQ(late_entries_of([&] { barrier.arrive_and_wait(); }), 0U);
  EXPECT_GT(late_entries_of([] {}), 0U);
}

TEST(RulerTest, ARankThatGivesUpEndsTheWaitsOfTheOthers) {
  const auto board = TickBoard::create(2, 4096);
  ASSERT_TRUE(board);
  std::thread other([&] { Ruler(*board, 1, 2).give_up(); });
  Ruler ruler(*board, 0, 2);
  const auto met = ruler.meet();
  other.join();
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, Errc::kPeerLost);
  EXPECT_EQ(met.error().rank, 1U);
}

TEST(RulerTest, AllLeaveAtTheTickOfRankZero) {
  const auto board = TickBoard::create(2, 4096);
  ASSERT_TRUE(board);
  std::uint64_t tick_of_other = 0;
  std::thread other([&] {
    Ruler ruler(*board, 1, bench_cores().size());
    const auto tick = ruler.arrange_start();
    if (!tick) return;
    ruler.await_tick(*tick);
    tick_of_other = *tick;
    EXPECT_GE(TickClock::now(), *tick);
  });
  Ruler ruler(*board, 0, bench_cores().size());
  const auto tick = ruler.arrange_start();
  other.join();
  ASSERT_TRUE(tick);
  EXPECT_EQ(tick_of_other, *tick);
}

}  // namespace
}  // namespace imex::bench
