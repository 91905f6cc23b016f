// send_receive(), and messages that the receiver fetches where they lie.

#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <imex/communicator.hpp>

#include "testing/process_ranks.hpp"
#include "testing/ranks.hpp"
#include "testing/reference.hpp"

namespace imex::exchange {
namespace {

using reference::Bytes;
using testing_kit::Board;
using testing_kit::ProcessRanks;
using testing_kit::run_ranks;
using testing_kit::Verdict;
using testing_kit::verdict_of;

/// About where messages begin to be fetched, and beyond the length of a ring.
constexpr std::size_t kSizes[] = {0, 1, 4096, 32'767, 32'768, 100'003, 1'500'000};

Bytes pattern(std::uint32_t seed, std::size_t bytes) {
  Bytes data(bytes);
  for (std::size_t i = 0; i != bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
  return data;
}

/// Every rank sends to the next and receives from the previous.
Verdict turn_round(Communicator& comm) {
  const std::uint32_t ranks = comm.size();
  const std::uint32_t next = (comm.rank() + 1) % ranks,
                      previous = (comm.rank() + ranks - 1) % ranks;
  for (const std::size_t bytes : kSizes) {
    const Bytes data = pattern(comm.rank(), bytes);
    Bytes into(bytes);
    if (auto done = comm.send_receive(data.data(), bytes, next, into.data(), bytes, previous);
        !done)
      return verdict_of(done);
    if (into != pattern(previous, bytes)) return fmt::format("{} bytes", bytes);
  }
  return {};
}

TEST(SendReceiveTest, GoesRoundARingOfRanks) {
  for (const bool single_copy : {true, false}) {
    CommunicatorOptions options;
    options.single_copy = single_copy;
    for (const std::uint32_t ranks : {2U, 3U, 5U}) run_ranks(ranks, options, turn_round);
  }
}

TEST(SendReceiveTest, GoesRoundARingOfProcesses) {
  ProcessRanks ranks(3, testing_kit::direct(3, [](Communicator& comm, Board&) {
                       const Verdict verdict = turn_round(comm);
                       std::fputs(verdict.c_str(), stderr);
                       return verdict.empty() ? 0 : 1;
                     }));
  const auto rendezvous = Rendezvous::create();
  ASSERT_TRUE(rendezvous);
  ranks.open(rendezvous->id());
  for (std::uint32_t rank = 0; rank != 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

TEST(SendReceiveTest, MemoryOfTheCommunicatorIsFetchedWhereItLies) {
  CommunicatorOptions options;
  options.single_copy = false;  // so that nothing else can be
  run_ranks(2, options, [](Communicator& comm) -> Verdict {
    constexpr std::size_t kBytes = 300'000;
    auto memory = comm.allocate(2 * kBytes);
    if (!memory) return memory.error().to_string();
    const Bytes data = pattern(comm.rank(), kBytes);
    std::ranges::copy(data, memory->begin());
    const std::span<std::byte> into = memory->subspan(kBytes);
    const std::uint32_t peer = 1 - comm.rank();
    if (auto done = comm.send_receive(memory->data(), kBytes, peer, into.data(), into.size(), peer);
        !done)
      return verdict_of(done);
    return std::ranges::equal(into, pattern(peer, kBytes)) ? Verdict{} : "other bytes";
  });
}

TEST(SendReceiveTest, DirectionsMayDifferInSize) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    const std::uint32_t peer = 1 - comm.rank();
    const std::size_t sizes[] = {40, 900'000};
    const Bytes data = pattern(comm.rank(), sizes[comm.rank()]);
    Bytes into(sizes[peer]);
    if (auto done =
            comm.send_receive(data.data(), data.size(), peer, into.data(), into.size(), peer);
        !done)
      return verdict_of(done);
    return into == pattern(peer, into.size()) ? Verdict{} : "other bytes";
  });
}

TEST(SendReceiveTest, MeetsSendAndReceiveOfAPeer) {
  for (const bool single_copy : {true, false}) {
    CommunicatorOptions options;
    options.single_copy = single_copy;
    run_ranks(2, options, [](Communicator& comm) -> Verdict {
      for (const std::size_t there : kSizes) {
        for (const std::size_t back : kSizes) {
          const std::uint32_t peer = 1 - comm.rank();
          const Bytes data = pattern(comm.rank(), comm.rank() == 0 ? there : back);
          Bytes into(comm.rank() == 0 ? back : there);
          Result<void> done;
          if (comm.rank() == 0) {
            done =
                comm.send_receive(data.data(), data.size(), peer, into.data(), into.size(), peer);
          } else {
            done = comm.receive(into.data(), into.size(), peer);
            if (done) done = comm.send(data.data(), data.size(), peer);
          }
          if (!done) return verdict_of(done);
          if (into != pattern(peer, into.size())) return fmt::format("{} and {}", there, back);
        }
      }
      return {};
    });
  }
}

TEST(SendReceiveTest, ComesAfterMessagesThatFillTheRing) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    constexpr std::size_t kLarge = 600'000;
    const std::uint32_t peer = 1 - comm.rank();
    const Bytes data = pattern(comm.rank(), kLarge);
    Bytes into(kLarge);
    Result<void> done;
    if (comm.rank() == 0) {
      for (int i = 0; i != 8 && done; ++i) done = comm.send(data.data(), 8, peer);
      if (done) done = comm.send_receive(data.data(), kLarge, peer, into.data(), kLarge, peer);
    } else {  // sends before it takes what is in the ring
      done = comm.send(data.data(), kLarge, peer);
      for (int i = 0; i != 8 && done; ++i) done = comm.receive(into.data(), 8, peer);
      if (done) done = comm.receive(into.data(), kLarge, peer);
    }
    if (!done) return verdict_of(done);
    return into == pattern(peer, kLarge) ? Verdict{} : "other bytes";
  });
}

TEST(SendReceiveTest, SizesThatDoNotAgreeAreAnError) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    const std::uint32_t peer = 1 - comm.rank();
    const Bytes data(comm.rank() == 0 ? 50'000 : 40'000);
    Bytes into(40'000);  // one too short for what rank 0 sends
    const auto done =
        comm.send_receive(data.data(), data.size(), peer, into.data(), into.size(), peer);
    if (done) return "sizes that differ went well";
    return done.error().code == Errc::kFailedPrecondition ? Verdict{} : verdict_of(done);
  });
}

TEST(SendReceiveTest, ArgumentsAreChecked) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    const std::uint32_t peer = 1 - comm.rank();
    Bytes data(100);
    const auto refused = [](const Result<void>& done) {
      return !done && done.error().code == Errc::kInvalidArgument;
    };
    if (!refused(comm.send_receive(data.data(), 60, peer, data.data() + 50, 50, peer)))
      return "ranges that overlap";
    if (!refused(comm.send_receive(data.data(), 8, comm.rank(), data.data() + 50, 8, peer)))
      return "itself";
    if (!refused(comm.send_receive(data.data(), 8, peer, data.data() + 50, 8, 2))) return "no rank";
    return verdict_of(comm.barrier());
  });
}

TEST(SendReceiveTest, AnAbortEndsTheWaitForWhoFetches) {
  run_ranks(2, {}, [](Communicator& comm) -> Verdict {
    if (comm.rank() == 1) {  // takes no part
      comm.abort();
      return {};
    }
    Bytes data(100'000), into(100'000);
    const auto done = comm.send_receive(data.data(), data.size(), 1, into.data(), into.size(), 1);
    if (done) return "went well without a peer";
    return done.error().code == Errc::kAborted ? Verdict{} : verdict_of(done);
  });
}

TEST(FetchedPartsTest, GatheredAndTransposedPartsOfAnySize) {
  for (const bool single_copy : {true, false}) {
    CommunicatorOptions options;
    options.single_copy = single_copy;
    run_ranks(3, options, [](Communicator& comm) -> Verdict {
      for (const std::size_t bytes : kSizes) {
        const Bytes own = pattern(comm.rank(), bytes);
        Bytes all(3 * bytes), out(3 * bytes);
        if (auto done = comm.all_gather(own.data(), all.data(), bytes); !done)
          return verdict_of(done);
        for (std::uint32_t rank = 0; rank != 3; ++rank) {
          const auto part = std::span(all).subspan(rank * bytes, bytes);
          if (!std::ranges::equal(part, pattern(rank, bytes)))
            return fmt::format("all_gather: {} bytes of rank {}", bytes, rank);
        }
        // All have the same now: part `rank` of each is what rank `rank` gets from everybody.
        if (auto done = comm.all_to_all(all.data(), out.data(), bytes); !done)
          return verdict_of(done);
        for (std::uint32_t rank = 0; rank != 3; ++rank) {
          if (!std::ranges::equal(std::span(out).subspan(rank * bytes, bytes), own))
            return fmt::format("all_to_all: {} bytes of rank {}", bytes, rank);
        }
      }
      return {};
    });
  }
}

}  // namespace
}  // namespace imex::exchange
