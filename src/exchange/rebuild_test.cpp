// Communicators made out of communicators: split, grow.

#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <imex/communicator.hpp>

#include "testing/ranks.hpp"

namespace imex::exchange {
namespace {

using testing_kit::run_ranks;
using testing_kit::Verdict;
using testing_kit::verdict_of;

/// The numbers of all ranks that are in it, as they were in the parent, by new rank.
Result<std::vector<std::uint32_t>> roll_call(Communicator& comm, std::uint32_t own) {
  std::vector<std::uint32_t> all(comm.size());
  const auto done = comm.all_gather(&own, all.data(), sizeof own);
  if (!done) return tl::unexpected(done.error());
  return all;
}

TEST(SplitTest, RanksOfOneColorInOrderOfTheirKeys) {
  run_ranks(6, {}, [](Communicator& comm) -> Verdict {
    // Colors 0 and 1; keys turn the order round. Twice: names of the first are not mixed up.
    for (int round = 0; round != 2; ++round) {
      auto part = comm.split(comm.rank() % 2, -static_cast<std::int64_t>(comm.rank()));
      if (!part) return part.error().to_string();
      if (!*part) return "no communicator";
      const auto roll = roll_call(**part, comm.rank());
      if (!roll) return roll.error().to_string();
      const std::uint32_t color = comm.rank() % 2;
      if (*roll != std::vector<std::uint32_t>{4 + color, 2 + color, color}) return "wrong order";
      if ((*part)->generation() != comm.generation() + 1) return "wrong generation";
    }
    return verdict_of(comm.barrier());
  });
}

TEST(SplitTest, EqualKeysKeepTheOrderAndNoColorGetsNothing) {
  run_ranks(4, {}, [](Communicator& comm) -> Verdict {
    const std::optional<std::uint32_t> color = comm.rank() == 2 ? std::nullopt : std::optional(7U);
    auto part = comm.split(color);
    if (!part) return part.error().to_string();
    if (part->has_value() != color.has_value()) return "wrong membership";
    if (*part) {
      const auto roll = roll_call(**part, comm.rank());
      if (!roll) return roll.error().to_string();
      if (*roll != std::vector<std::uint32_t>{0, 1, 3}) return "wrong order";
    }
    return verdict_of(comm.barrier());
  });
}

TEST(SplitTest, PartsFailApart) {
  run_ranks(4, {}, [](Communicator& comm) -> Verdict {
    auto part = comm.split(comm.rank() / 2);
    if (!part) return part.error().to_string();
    if (comm.rank() == 0) (*part)->abort();
    if (comm.rank() < 2) {
      const auto done = (*part)->barrier();
      if (done || done.error().code != Errc::kAborted) return "the part that was aborted";
    } else {
      const auto done = (*part)->barrier();
      if (!done) return verdict_of(done);
    }
    return verdict_of(comm.barrier());  // the parent goes on
  });
}

TEST(GrowTest, NewcomersJoinUnderTheNextGeneration) {
  constexpr std::uint32_t kOld = 2, kNew = 5;
  std::array<std::optional<UniqueId>, 1> place;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Rendezvous> rendezvous;
  const auto given_id = [&] {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(10), [&] { return place[0].has_value(); });
    return place[0].value_or(UniqueId{});
  };
  const auto check = [](Communicator& all, std::uint32_t wanted) -> Verdict {
    if (all.rank() != wanted || all.size() != kNew || all.generation() != 2)
      return "wrong identity";
    const auto roll = roll_call(all, all.rank());
    if (!roll) return roll.error().to_string();
    std::vector<std::uint32_t> numbers(kNew);
    std::iota(numbers.begin(), numbers.end(), 0U);
    return *roll == numbers ? Verdict{} : "wrong order";
  };
  std::array<Verdict, kNew> verdicts;
  std::vector<std::thread> newcomers;
  for (std::uint32_t rank = kOld; rank != kNew; ++rank) {
    newcomers.emplace_back([&, rank] {
      auto all = Communicator::create(given_id(), rank, kNew);
      verdicts[rank] = all ? check(*all, rank) : all.error().to_string();
    });
  }
  run_ranks(kOld, {}, [&](Communicator& comm) -> Verdict {
    if (comm.rank() == 0) {
      auto made = comm.rendezvous();
      if (!made) return made.error().to_string();
      const std::lock_guard lock(mutex);
      rendezvous.emplace(std::move(*made));
      place[0] = rendezvous->id();
      changed.notify_all();
    }
    auto all = comm.grow(given_id(), kNew);
    if (!all) return all.error().to_string();
    const Verdict verdict = check(*all, comm.rank());
    return verdict.empty() ? verdict_of(comm.barrier()) : verdict;
  });
  for (std::thread& thread : newcomers) thread.join();
  for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict, "");
}

TEST(GrowTest, AnAbortEndsTheWaitForNewcomers) {
  CommunicatorOptions options;
  options.timeout = std::chrono::milliseconds::zero();  // it would wait for ever
  std::atomic<int> told_ranks{0};
  run_ranks(2, options, [&](Communicator& comm) -> Verdict {
    UniqueId place;
    std::optional<Rendezvous> made;
    if (comm.rank() == 0) {
      auto rendezvous = comm.rendezvous();
      if (!rendezvous) return rendezvous.error().to_string();
      place = made.emplace(std::move(*rendezvous)).id();
    }
    if (auto told = comm.broadcast(&place, sizeof place, 0); !told) return verdict_of(told);
    told_ranks.fetch_add(1);
    std::jthread aborter([&] {
      while (told_ranks != 2) std::this_thread::yield();  // before that it would end the broadcast
      comm.abort();
    });
    const auto all = comm.grow(place, 3);
    if (all) return "grew without a newcomer";
    return all.error().code == Errc::kAborted ? Verdict{} : all.error().to_string();
  });
}

TEST(GrowTest, FewerRanksAreRefused) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    const auto all = comm.grow(UniqueId{}, 2);
    return !all && all.error().code == Errc::kInvalidArgument ? Verdict{} : "grow to the same size";
  });
}

// Each one finds the notices of this round, whatever ranks are still busy with the one before.
TEST(ShrinkTest, MayBeDoneAgainAndEachResultIsOneOfItsOwn) {
  run_ranks(3, {}, [](Communicator& comm) -> Verdict {
    std::minstd_rand random(comm.rank() + 1);
    std::vector<Communicator> made;
    for (int round = 0; round != 8; ++round) {
      for (auto pause = random() % 50; pause != 0; --pause) std::this_thread::yield();
      auto same = comm.shrink({});
      if (!same) return same.error().to_string();
      made.push_back(std::move(*same));
    }
    for (std::size_t i = made.size(); i-- != 0;) {
      std::uint32_t sum = comm.rank() + static_cast<std::uint32_t>(i);
      const auto done = made[i].all_reduce(&sum, &sum, 1, DataType::kUint32, ReduceOp::kSum);
      if (!done) return verdict_of(done);
      if (sum != 3 + 3 * i) return "ranks of different communicators have met";
    }
    const auto more = comm.shrink({});
    if (more || more.error().code != Errc::kResourceExhausted) return "a ninth";
    return verdict_of(comm.barrier());
  });
}

}  // namespace
}  // namespace imex::exchange
