// Operations that are started and waited for later, and writes that the peer takes no part in.

#include <chrono>
#include <cstring>
#include <numeric>
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

TEST(StartedTest, OperationsOfALaneEndInTheirOrder) {
  run_ranks(3, {}, [](Communicator& comm) -> Verdict {
    constexpr int kCount = 40;
    std::vector<std::int32_t> data(kCount, static_cast<std::int32_t>(comm.rank()));
    std::vector<Request> requests;
    for (std::int32_t& value : data) {
      auto request = comm.start_all_reduce(&value, &value, 1, DataType::kInt32, ReduceOp::kSum);
      if (!request) return request.error().to_string();
      requests.push_back(std::move(*request));
    }
    // The last one: all before it are done then.
    const auto last = requests.back().wait();
    if (!last) return verdict_of(last);
    for (Request& request : requests) {
      if (!request.test()) return "an earlier one is not done";
      if (const auto done = request.wait(); !done) return verdict_of(done);
    }
    return data == std::vector<std::int32_t>(kCount, 3) ? Verdict{} : "wrong sum";
  });
}

TEST(StartedTest, NoMemoryIsMadeBesideAnOperation) {
  run_ranks(2, {.lanes = 2}, [](Communicator& comm) -> Verdict {
    int word = 0;
    if (comm.rank() == 0) {
      auto started = comm.start_receive(&word, sizeof word, 1, 1);
      if (!started) return started.error().to_string();
      const auto memory = comm.allocate(4096);
      if (memory || memory.error().code != Errc::kFailedPrecondition) return "memory was made";
      if (auto done = comm.barrier(); !done) return verdict_of(done);
      if (auto done = started->wait(); !done) return verdict_of(done);
    } else {
      if (auto done = comm.barrier(); !done) return verdict_of(done);
      if (auto done = comm.send(&word, sizeof word, 0, 1); !done) return verdict_of(done);
    }
    const auto memory = comm.allocate(4096);
    return memory ? Verdict{} : memory.error().to_string();
  });
}

TEST(StartedTest, TestSaysSoOnceAllRanksHaveStarted) {
  run_ranks(2, {.lanes = 2}, [](Communicator& comm) -> Verdict {
    std::int32_t value = 1;
    if (comm.rank() == 0) {
      auto request = comm.start_all_reduce(&value, &value, 1, DataType::kInt32, ReduceOp::kSum, 1);
      if (!request) return request.error().to_string();
      if (request->test()) return "done before the peer has begun";
      // Only now the peer begins.
      if (const auto begin = comm.barrier(); !begin) return verdict_of(begin);
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!request->test()) {
        if (std::chrono::steady_clock::now() > end) return "never done";
        std::this_thread::yield();
      }
      return value == 2 ? verdict_of(request->wait()) : "wrong sum";
    }
    if (const auto begin = comm.barrier(); !begin) return verdict_of(begin);
    const auto done = comm.all_reduce(&value, &value, 1, DataType::kInt32, ReduceOp::kSum, 1);
    return value == 2 ? verdict_of(done) : "wrong sum";
  });
}

TEST(StartedTest, EveryOperationCanBeStarted) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    const std::uint32_t self = comm.rank(), peer = 1 - self;
    std::vector<std::int32_t> in{1, 2}, out(4), gathered(2), received(1), own{5}, swapped(2);
    std::int32_t root_value = self == 0 ? 9 : 0, reduced = 0;
    std::vector<Result<Request>> started;
    started.push_back(
        comm.start_reduce_scatter(in.data(), &out[0], 1, DataType::kInt32, ReduceOp::kSum));
    started.push_back(comm.start_all_gather(&self, gathered.data(), sizeof self));
    started.push_back(comm.start_broadcast(&root_value, sizeof root_value, 0));
    started.push_back(
        comm.start_reduce(own.data(), &reduced, 1, DataType::kInt32, ReduceOp::kProd, 1));
    started.push_back(comm.start_all_to_all(in.data(), swapped.data(), sizeof(std::int32_t)));
    started.push_back(self == 0 ? comm.start_send(own.data(), sizeof own[0], peer)
                                : comm.start_receive(received.data(), sizeof own[0], peer));
    started.push_back(comm.start_barrier());
    for (auto& request : started) {
      if (!request) return request.error().to_string();
      if (const auto done = request->wait(); !done) return verdict_of(done);
    }
    const auto mine = static_cast<std::int32_t>(self) + 1;
    const bool right = out[0] == 2 * mine && gathered == std::vector<std::int32_t>{0, 1} &&
                       root_value == 9 && (self == 0 || (reduced == 25 && received[0] == 5)) &&
                       swapped == std::vector<std::int32_t>{mine, mine};
    return right ? Verdict{} : "wrong results";
  });
}

TEST(StartedTest, BlockingOperationsWaitTheirTurnAndTheQueueIsBounded) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    std::int32_t value = 0;
    if (comm.rank() == 0) {
      std::vector<Request> requests;
      std::vector<std::int32_t> values(80);
      for (std::int32_t& each : values) {
        auto request = comm.start_receive(&each, sizeof each, 1);
        if (!request) {
          if (request.error().code != Errc::kResourceExhausted) return request.error().to_string();
          break;
        }
        requests.push_back(std::move(*request));
      }
      // One may have left the queue to run.
      if (requests.size() < 64 || requests.size() > 65) return "no bound";
      const auto refused = comm.receive(&value, sizeof value, 1);
      if (refused || refused.error().code != Errc::kFailedPrecondition)
        return "a blocking call has overtaken those that were started";
      comm.abort();
      for (Request& request : requests) {
        const auto done = request.wait();
        if (done || done.error().code != Errc::kAborted) return "not aborted";
      }
      return {};
    }
    const auto done = comm.barrier();
    return done ? "the barrier of an aborted communicator" : "";
  });
}

TEST(StartedTest, AnEndWithOperationsUnderWayWaitsForNobody) {
  const auto begin = std::chrono::steady_clock::now();
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    if (comm.rank() == 1) return comm.barrier() ? "the barrier of a rank that left" : Verdict{};
    static std::int32_t value = 0;
    for (int i = 0; i != 3; ++i) {
      const auto request = comm.start_receive(&value, sizeof value, 1);
      if (!request) return request.error().to_string();
    }
    return {};
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, CommunicatorOptions{}.timeout);
}

TEST(PutTest, BytesAreThereOnceTheirSignalIs) {
  run_ranks(3, {}, [](Communicator& comm) -> Verdict {
    constexpr std::size_t kBytes = 10'000;
    const auto memory = comm.allocate(3 * kBytes);
    if (!memory) return memory.error().to_string();
    const std::uint32_t next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    std::vector<std::byte> data(kBytes);
    for (std::uint64_t round = 1; round != 200; ++round) {
      std::memset(data.data(), static_cast<int>(round + comm.rank()), kBytes);
      // Into the part that is named after the sender, in everybody's memory.
      std::byte* const place = memory->data() + comm.rank() * kBytes;
      auto done = comm.put(data.data(), place, kBytes / 2, next);
      if (done) {
        done = comm.put_signal(data.data() + kBytes / 2, place + kBytes / 2, kBytes / 2, next, 3);
      }
      if (done) done = comm.wait_signal(previous, round, 3);
      if (!done) return verdict_of(done);
      const std::byte wanted{static_cast<std::uint8_t>(round + previous)};
      for (std::size_t i = 0; i != kBytes; ++i) {
        if (memory->data()[previous * kBytes + i] != wanted) return "bytes came after their signal";
      }
      if (done = comm.barrier(); !done) return verdict_of(done);
    }
    return {};
  });
}

TEST(PutTest, WrongArgumentsAreRefused) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    const auto memory = comm.allocate(100);
    if (!memory) return memory.error().to_string();
    std::array<std::byte, 200> data{};
    const std::uint32_t peer = 1 - comm.rank();
    const auto refused = [](const Result<void>& done) {
      return !done && done.error().code == Errc::kInvalidArgument;
    };
    if (!refused(comm.put(data.data(), data.data(), 10, peer))) return "to private memory";
    if (!refused(comm.put(data.data(), memory->data(), 5'000, peer))) return "beyond the end";
    if (!refused(comm.put(data.data(), memory->data(), 10, comm.rank()))) return "to itself";
    if (!refused(comm.put(data.data(), memory->data(), 10, 2))) return "to nobody";
    if (!refused(comm.put_signal(data.data(), memory->data(), 10, peer, 8))) return "signal 8";
    if (!refused(comm.wait_signal(peer, 1, 8))) return "wait for signal 8";
    if (!comm.put_signal(nullptr, nullptr, 0, peer)) return "a signal without bytes";
    if (!comm.wait_signal(peer, 1)) return "wait for it";
    return verdict_of(comm.barrier());
  });
}

TEST(PutTest, AWaitForASignalEndsWithItsPeer) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    if (comm.rank() == 1) return {};
    const auto done = comm.wait_signal(1, 1);
    return !done && done.error().code == Errc::kPeerLost ? Verdict{} : "a signal of nobody";
  });
}

}  // namespace
}  // namespace imex::exchange
