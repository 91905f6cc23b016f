// Operations other than all_reduce, arguments, and what happens when ranks do not agree.

#include <array>
#include <atomic>
#include <numeric>
#include <random>
#include <stop_token>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core.hpp"
#include "testing/ranks.hpp"
#include "testing/reference.hpp"

namespace imex::exchange {
namespace {

using reference::Bytes;
using std::chrono::milliseconds;
using testing_kit::run_ranks;
using testing_kit::Verdict;
using testing_kit::verdict_of;

#ifdef __SANITIZE_THREAD__
constexpr std::size_t kLargest = 30'000;  // several turns of the ring; more takes minutes
#else
constexpr std::size_t kLargest = 150'000;
#endif
constexpr std::array<std::size_t, 6> kSizes{0, 1, 100, 2240, 9001, kLargest};

Bytes bytes_of(std::uint32_t rank, std::size_t bytes) {
  return reference::random_bytes(DataType::kUint8, bytes, 1000 + 2 * rank);
}

void for_ranks(const std::function<Verdict(Communicator&)>& body) {
  CommunicatorOptions options;
  options.slot_bytes = 8 << 10;
  for (const std::uint32_t ranks : {1U, 2U, 3U, 6U}) run_ranks(ranks, options, body);
}

TEST(CommunicatorTest, AllGatherConcatenatesInRankOrder) {
  for_ranks([](Communicator& comm) -> Verdict {
    for (const std::size_t size : kSizes) {
      Bytes wanted;
      for (std::uint32_t rank = 0; rank != comm.size(); ++rank) {
        const Bytes part = bytes_of(rank, size);
        wanted.insert(wanted.end(), part.begin(), part.end());
      }
      Bytes out(wanted.size()), in = bytes_of(comm.rank(), size);
      if (auto done = comm.all_gather(in.data(), out.data(), size); !done) return verdict_of(done);
      if (out != wanted) return fmt::format("all_gather of {} bytes", size);
      std::fill(out.begin(), out.end(), std::byte{0});
      std::copy(in.begin(), in.end(),
                out.begin() + static_cast<std::ptrdiff_t>(comm.rank() * size));
      auto done = comm.all_gather(out.data() + comm.rank() * size, out.data(), size);
      if (!done) return verdict_of(done);
      if (out != wanted) return fmt::format("all_gather of {} bytes in place", size);
    }
    return {};
  });
}

TEST(CommunicatorTest, ReduceScatterAndReduceEqualTheReference) {
  for_ranks([](Communicator& comm) -> Verdict {
    for (const std::size_t size : kSizes) {
      const std::size_t count = size / 2;
      std::vector<Bytes> inputs;
      for (std::uint32_t rank = 0; rank != comm.size(); ++rank) {
        inputs.push_back(
            reference::random_bytes(DataType::kBfloat16, count * comm.size(), 3 + 2 * rank));
      }
      const Bytes all = reference::reduce(DataType::kBfloat16, ReduceOp::kSum, inputs);
      Bytes own = inputs[comm.rank()];
      std::byte* part = own.data() + comm.rank() * count * 2;
      auto done = comm.reduce_scatter(own.data(), part, count, DataType::kBfloat16, ReduceOp::kSum);
      if (!done) return verdict_of(done);
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(comm.rank() * count * 2);
      const Bytes wanted(begin, begin + static_cast<std::ptrdiff_t>(count * 2));
      if (reference::first_difference(DataType::kBfloat16, Bytes(part, part + count * 2), wanted) !=
          -1) {
        return fmt::format("reduce_scatter of {} elements", count);
      }
      const std::uint32_t root = static_cast<std::uint32_t>(size % comm.size());
      own = inputs[comm.rank()];
      Bytes out(comm.rank() == root ? own.size() : 0);
      done = comm.reduce(own.data(), out.data(), own.size() / 2, DataType::kBfloat16,
                         ReduceOp::kSum, root);
      if (!done) return verdict_of(done);
      if (comm.rank() == root && reference::first_difference(DataType::kBfloat16, out, all) != -1) {
        return fmt::format("reduce of {} elements", own.size() / 2);
      }
    }
    return {};
  });
}

TEST(CommunicatorTest, BroadcastReachesAllFromEveryRoot) {
  for_ranks([](Communicator& comm) -> Verdict {
    for (const std::size_t size : kSizes) {
      for (std::uint32_t root = 0; root != comm.size(); ++root) {
        Bytes data = bytes_of(comm.rank(), size);
        if (auto done = comm.broadcast(data.data(), size, root); !done) return verdict_of(done);
        if (data != bytes_of(root, size)) return fmt::format("{} bytes from {}", size, root);
      }
    }
    return {};
  });
}

TEST(CommunicatorTest, AllToAllTransposes) {
  for_ranks([](Communicator& comm) -> Verdict {
    for (const std::size_t size : kSizes) {
      Bytes in, wanted, out(size * comm.size());
      for (std::uint32_t rank = 0; rank != comm.size(); ++rank) {
        const Bytes to = bytes_of(100 * comm.rank() + rank, size);
        const Bytes from = bytes_of(100 * rank + comm.rank(), size);
        in.insert(in.end(), to.begin(), to.end());
        wanted.insert(wanted.end(), from.begin(), from.end());
      }
      if (auto done = comm.all_to_all(in.data(), out.data(), size); !done) return verdict_of(done);
      if (out != wanted) return fmt::format("all_to_all of {} bytes", size);
    }
    return {};
  });
}

TEST(CommunicatorTest, AllToAllVMovesPartsOfAnySize) {
  for_ranks([](Communicator& comm) -> Verdict {
    const auto size = [](std::uint32_t from, std::uint32_t to) {
      return (from + to) % 3 == 0 ? std::size_t{0} : std::size_t{30'011} * from + 17 * to + 1;
    };
    std::vector<Bytes> in(comm.size()), out(comm.size());
    std::vector<std::span<const std::byte>> sends;
    std::vector<std::span<std::byte>> receives;
    for (std::uint32_t rank = 0; rank != comm.size(); ++rank) {
      in[rank] = bytes_of(100 * comm.rank() + rank, size(comm.rank(), rank));
      out[rank].resize(size(rank, comm.rank()));
      sends.emplace_back(in[rank]);
      receives.emplace_back(out[rank]);
    }
    if (auto done = comm.all_to_all_v(sends, receives); !done) return verdict_of(done);
    for (std::uint32_t rank = 0; rank != comm.size(); ++rank) {
      if (out[rank] != bytes_of(100 * rank + comm.rank(), size(rank, comm.rank())))
        return fmt::format("part from {}", rank);
    }
    return {};
  });
}

TEST(CommunicatorTest, SendsArriveInOrder) {
  run_ranks(3, {}, [](Communicator& comm) -> Verdict {
    for (std::uint32_t i = 0; i != 50; ++i) {
      const std::size_t size = i * 997;
      if (comm.rank() == 0) {
        const Bytes data = bytes_of(i, size);
        if (auto done = comm.send(data.data(), size, 2); !done) return verdict_of(done);
      } else if (comm.rank() == 2) {
        Bytes data(size);
        if (auto done = comm.receive(data.data(), size, 0); !done) return verdict_of(done);
        if (data != bytes_of(i, size)) return fmt::format("message {}", i);
      }
    }
    return verdict_of(comm.barrier());
  });
}

TEST(CommunicatorTest, OperationsMix) {
  // Symmetric and one-sided operations share rings and slots.
  run_ranks(3, {}, [](Communicator& comm) -> Verdict {
    std::mt19937 random(5);
    std::vector<std::uint64_t> data(40'000);
    for (int i = 0; i != 200; ++i) {
      const std::size_t count = random() % 3 == 0 ? random() % 40'000 : random() % 300;
      const std::uint32_t root = static_cast<std::uint32_t>(random() % 3);
      std::fill(data.begin(), data.end(), comm.rank() + 1);
      std::uint64_t wanted = 6;
      Result<void> done;
      switch (random() % 3) {
        case 0:
          done =
              comm.all_reduce(data.data(), data.data(), count, DataType::kUint64, ReduceOp::kSum);
          break;
        case 1:
          done = comm.broadcast(data.data(), count * 8, root);
          wanted = root + 1;
          break;
        default:
          done =
              comm.reduce(data.data(), data.data(), count, DataType::kUint64, ReduceOp::kSum, root);
          if (comm.rank() != root) wanted = comm.rank() + 1;
      }
      if (!done) return verdict_of(done);
      if (count != 0 && (data[0] != wanted || data[count - 1] != wanted))
        return fmt::format("operation {}", i);
    }
    return {};
  });
}

TEST(CommunicatorTest, PeersMemoryIsWritable) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    auto own = comm.allocate(1000);
    if (!own) return own.error().to_string();
    auto other = comm.peer_memory(own->subspan(8, 4), 1 - comm.rank());
    if (!other) return other.error().to_string();
    (*other)[0] = std::byte{static_cast<unsigned char>(comm.rank() + 1)};
    if (auto done = comm.barrier(); !done) return verdict_of(done);
    if (std::to_integer<std::uint32_t>((*own)[8]) != 2 - comm.rank()) return "not written";
    const std::byte elsewhere{};
    if (comm.peer_memory({&elsewhere, 1}, 0)) return "private memory has a peer";
    return {};
  });
}

TEST(CommunicatorTest, WrongArgumentsLeaveItUsable) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    std::array<float, 64> data{};
    const auto refused = [](const Result<void>& result) {
      return !result && result.error().code == Errc::kInvalidArgument;
    };
    const auto sum = ReduceOp::kSum;
    if (!refused(comm.all_reduce(data.data(), data.data() + 1, 8, DataType::kFloat32, sum)))
      return "overlap";
    if (!refused(comm.all_reduce(nullptr, data.data(), 8, DataType::kFloat32, sum))) return "null";
    if (!refused(comm.all_reduce(data.data(), data.data(), 8, static_cast<DataType>(77), sum)))
      return "type";
    if (!refused(comm.all_reduce(data.data(), data.data(), 8, DataType::kFloat32, sum, 1)))
      return "lane";
    if (!refused(comm.broadcast(data.data(), 8, 2))) return "root";
    if (!refused(comm.send(data.data(), 8, comm.rank()))) return "itself";
    return verdict_of(comm.barrier());
  });
}

TEST(CommunicatorTest, RanksThatDisagreeAreNamedInCheckedMode) {
  CommunicatorOptions options;
  options.check = true;
  run_ranks(2, options, [](Communicator& comm) -> Verdict {
    std::vector<float> data(100);
    auto done = comm.all_reduce(data.data(), data.data(), 10 + comm.rank(), DataType::kFloat32,
                                ReduceOp::kSum);
    if (done || done.error().code != Errc::kInvalidArgument) return "sizes not compared";
    const std::string text = done.error().to_string();
    if (text.find("of 40 bytes") == text.npos || text.find("of 44 bytes") == text.npos) return text;
    done = comm.rank() == 0 ? comm.barrier() : comm.broadcast(data.data(), 8, 0);
    if (done || done.error().code != Errc::kInvalidArgument) return "operations not compared";
    return verdict_of(comm.barrier());
  });
}

// A rank that is told first gives its memory up, which another is about to map: the abort is the
// reason in all of them.
TEST(CommunicatorTest, AnAbortEndsAllocateWithItsOwnError) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int kRounds = 5;
#else
  constexpr int kRounds = 60;
#endif
  std::minstd_rand random(1);
  for (int round = 0; round != kRounds; ++round) {
    const auto delay = std::chrono::microseconds(random() % 1500);
    std::atomic<int> created{0};
    run_ranks(3, {}, [&](Communicator& comm) -> Verdict {
      ++created;
      std::jthread aborter;
      if (comm.rank() == 0) {
        aborter = std::jthread([&] {
          while (created != 3) std::this_thread::yield();
          const auto instant = std::chrono::steady_clock::now() + delay;
          while (std::chrono::steady_clock::now() < instant) std::this_thread::yield();
          comm.abort();
        });
      }
      for (;;) {
        const auto memory = comm.allocate(4096);
        if (memory) continue;
        return memory.error().code == Errc::kAborted ? Verdict{} : memory.error().to_string();
      }
    });
  }
}

TEST(CommunicatorTest, ALateRankIsNamedAndEndsTheOthersWaits) {
  CommunicatorOptions options;
  options.timeout = milliseconds(200);
  run_ranks(3, options, [](Communicator& comm) -> Verdict {
    if (comm.rank() == 2) {
      // Comes only once the others have given up.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!comm.async_error()) {
        if (std::chrono::steady_clock::now() > deadline) return "not told";
        std::this_thread::yield();
      }
    }
    const auto done = comm.barrier();
    if (done || done.error().code != Errc::kDeadlineExceeded) return "no deadline";
    // Which of the two gave up first decides what the other is told: rank 2 in either case.
    return done.error().rank == 2 ? Verdict{} : done.error().to_string();
  });
}

TEST(CommunicatorTest, AbortFromAnotherThreadEndsAllWaits) {
  // Not before all have come: an abort would end their create() as well.
  std::atomic<int> created{0};
  run_ranks(3, {}, [&](Communicator& comm) -> Verdict {
    ++created;
    std::thread aborter;
    if (comm.rank() == 0) {
      aborter = std::thread([&] {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (created != 3 && std::chrono::steady_clock::now() < deadline)
          std::this_thread::yield();
        comm.abort();
      });
    }
    Result<void> done;
    // Rank 1 never comes by itself: only the abort ends the waits of the others.
    if (comm.rank() != 1) {
      done = comm.barrier();
    } else {
      while (!comm.async_error()) std::this_thread::yield();
      done = comm.barrier();
    }
    if (aborter.joinable()) aborter.join();
    if (done || done.error().code != Errc::kAborted) return "not aborted";
    return done.error().rank == 0 ? Verdict{} : done.error().to_string();
  });
}

TEST(CommunicatorTest, ARankThatHasLeftIsNotWaitedFor) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    if (comm.rank() == 1) return {};
    const auto done = comm.barrier();
    if (done || done.error().code != Errc::kPeerLost || done.error().rank != 1)
      return "still waited for";
    return {};
  });
}

TEST(CommunicatorTest, ALaneCarriesOneOperation) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    if (comm.rank() == 0) {
      // Waits for rank 1, which never comes; only the abort below ends it.
      std::thread first([&] {
        Result<void> done;
        do {
          done = comm.barrier();  // refused while a send has the lane
        } while (!done && done.error().code == Errc::kFailedPrecondition);
      });
      Result<void> second;
      do {
        second = comm.send(nullptr, 0, 1);  // sends nothing; refused once the barrier has the lane
      } while (second);
      comm.abort();
      first.join();
      if (second.error().code != Errc::kFailedPrecondition) return second.error().to_string();
      return {};
    }
    while (!comm.async_error()) std::this_thread::yield();
    return {};
  });
}

TEST(CommunicatorTest, HistogramsCountSizesAndSampleTimes) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    const CommunicatorCounters before = comm.counters();
    std::vector<std::int32_t> data(300);
    for (int i = 0; i != 64; ++i) {
      const std::size_t count = i % 2 == 0 ? 3 : 300;  // 12 and 1200 bytes
      const auto done =
          comm.all_reduce(data.data(), data.data(), count, DataType::kInt32, ReduceOp::kMax);
      if (!done) return verdict_of(done);
    }
    const CommunicatorCounters after = comm.counters();
    if (after.by_bytes[4] - before.by_bytes[4] != 32) return "sizes of 8 to 15 bytes";
    if (after.by_bytes[11] - before.by_bytes[11] != 32) return "sizes of 1024 to 2047 bytes";
    const auto sum = [](const auto& counts) {
      return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    };
    if (sum(after.by_time) - sum(before.by_time) != 4) return "one in 16 is timed";
    return {};
  });
}

TEST(CommunicatorTest, ShrinkGoesOnWithTheSurvivors) {
  run_ranks(4, {}, [](Communicator& comm) -> Verdict {
    if (comm.rank() == 1) return {};
    const auto done = comm.barrier();
    if (done) return "the barrier of a lost rank";
    const std::array<std::uint32_t, 1> dead{1};
    auto rest = comm.shrink(dead);
    if (!rest) return rest.error().to_string();
    if (rest->size() != 3 || rest->generation() != comm.generation() + 1) return "wrong identity";
    std::int32_t one = 1;
    auto sum = rest->all_reduce(&one, &one, 1, DataType::kInt32, ReduceOp::kSum);
    if (!sum) return verdict_of(sum);
    return one == 3 ? Verdict{} : "wrong sum";
  });
}

TEST(CommunicatorCreateTest, WhoHasACommunicatorCanCountOnAllOthers) {
  // Rank 0 fails as soon as it can. That must not reach a rank which is still busy with creating.
#if defined(__SANITIZE_THREAD__)
  constexpr int kRounds = 30;
#else
  constexpr int kRounds = 200;
#endif
  for (int round = 0; round != kRounds && !testing::Test::HasFailure(); ++round) {
    run_ranks(4, {}, [](Communicator& comm) -> Verdict {
      if (comm.rank() == 0) comm.abort();
      return {};
    });
  }
}

TEST(CommunicatorTest, ShrinkNamesASurvivorThatIsGoneAsWell) {
  const auto begin = std::chrono::steady_clock::now();
  run_ranks(4, {}, [](Communicator& comm) -> Verdict {
    if (comm.rank() == 1 || comm.rank() == 3) return {};
    if (comm.barrier()) return "the barrier of a lost rank";
    const std::array<std::uint32_t, 1> dead{1};
    const auto rest = comm.shrink(dead);
    if (rest) return "shrink with a rank that is gone";
    // The other survivor may have failed, and gone, before rank 3 was looked at.
    const bool named = rest.error().rank == 3 || rest.error().rank == 2 - comm.rank();
    return rest.error().code == Errc::kPeerLost && named ? Verdict{} : rest.error().to_string();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, CommunicatorOptions{}.timeout);
}

TEST(CommunicatorCreateTest, MissingAndDoubleRanksAreNamed) {
  CommunicatorOptions options;
  options.timeout = milliseconds(100);
  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  auto comm = Communicator::create(rendezvous->id(), 1, 3, options);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Errc::kDeadlineExceeded);
  EXPECT_NE(comm.error().message.find("2 of 3 ranks did not come in time: 0, 2"), std::string::npos)
      << comm.error().message;
  comm = Communicator::create(rendezvous->id(), 1, 3, options);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Errc::kAlreadyExists);
}

TEST(CommunicatorCreateTest, CanBeStopped) {
  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  std::stop_source stop;
  CommunicatorOptions options;
  options.timeout = milliseconds::zero();  // it would wait for ever
  options.stop = stop.get_token();
  stop.request_stop();
  const auto comm = Communicator::create(rendezvous->id(), 1, 3, options);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Errc::kAborted) << comm.error().message;
}

TEST(CommunicatorCreateTest, AsksAgainAndAgainWhetherToGoOn) {
  auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  CommunicatorOptions options;
  options.timeout = milliseconds::zero();
  int asked = 0;
  const auto core =
      Core::meet(direct_connector(), rendezvous->id(), 1, 3, options, [&]() -> Result<void> {
        if (++asked < 3) return {};
        return tl::unexpected(Error{Errc::kAborted, "enough"});
      });
  ASSERT_FALSE(core);
  EXPECT_EQ(core.error().code, Errc::kAborted);
  EXPECT_EQ(asked, 3);
}

TEST(CommunicatorCreateTest, ForgedIdsAreRefused) {
  auto comm = Communicator::create(UniqueId{}, 0, 2);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Errc::kInvalidArgument);
  UniqueId ended;
  {
    auto rendezvous = Rendezvous::create();
    ASSERT_TRUE(rendezvous);
    ended = rendezvous->id();
    EXPECT_EQ(*UniqueId::from_hex(ended.to_hex()), ended);
  }
  comm = Communicator::create(ended, 0, 2);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Errc::kNotFound);
  EXPECT_FALSE(UniqueId::from_hex("12"));
}

}  // namespace
}  // namespace imex::exchange
