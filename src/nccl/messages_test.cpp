// Sends and receives of several ranks, in groupings that must not stop each other.
#include "messages.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/ranks.hpp"

namespace imex::nccl {
namespace {

using exchange::testing_kit::run_ranks;
using exchange::testing_kit::Verdict;
using exchange::testing_kit::verdict_of;
using std::chrono::milliseconds;
using testing::HasSubstr;

using Bytes = std::vector<std::byte>;

#ifdef __SANITIZE_THREAD__
constexpr std::size_t kBeyondTheRing = 550'001;  // more takes long
constexpr std::uint32_t kRanksMax = 3;
#else
constexpr std::size_t kBeyondTheRing = 1'700'001;
constexpr std::uint32_t kRanksMax = 5;
#endif

/// What rank `from` sends to rank `to` as its message `number`.
Bytes content(std::uint32_t from, std::uint32_t to, std::uint32_t number, std::size_t bytes) {
  Bytes data(bytes);
  const std::uint32_t seed = from * 31 + to * 101 + number * 13;
  for (std::size_t i = 0; i != bytes; ++i) {
    data[i] = static_cast<std::byte>(i * 7 + seed);
  }
  return data;
}

Outgoing to(std::uint32_t peer, const Bytes& data) { return {data.data(), data.size(), peer}; }
Incoming from(std::uint32_t peer, Bytes& data) { return {data.data(), data.size(), peer}; }

/// Runs `body` as every rank, with its Messages.
void run(std::uint32_t ranks, const std::function<Verdict(Communicator&, Messages&)>& body,
         milliseconds timeout = milliseconds{20'000}) {
  run_ranks(ranks, {}, [&](Communicator& comm) -> Verdict {
    auto messages = Messages::create(comm, timeout);
    return messages ? body(comm, *messages) : messages.error().to_string();
  });
}

TEST(MessagesTest, EveryPairSwapsMessagesOfEverySizeInOneCall) {
  // Nothing, a byte, a slot and one more, and more than the ring holds, both ways at once.
  constexpr std::array<std::size_t, 6> kSizes{0, 1, 4096, 65'537, kBeyondTheRing, 3};
  for (const std::uint32_t ranks : {1U, 2U, kRanksMax}) {
    run(ranks, [&](Communicator& comm, Messages& messages) -> Verdict {
      const std::uint32_t self = comm.rank();
      std::vector<Bytes> sent, received;
      std::vector<Outgoing> sends;
      std::vector<Incoming> receives;
      for (std::uint32_t number = 0; number != kSizes.size(); ++number) {
        for (std::uint32_t peer = 0; peer != ranks; ++peer) {
          sent.push_back(content(self, peer, number, kSizes[number]));
          received.emplace_back(kSizes[number]);
          sends.push_back(to(peer, sent.back()));
          receives.push_back(from(peer, received.back()));
        }
      }
      if (auto done = messages.exchange(sends, receives); !done) return verdict_of(done);
      for (std::uint32_t number = 0; number != kSizes.size(); ++number) {
        for (std::uint32_t peer = 0; peer != ranks; ++peer) {
          if (received[number * ranks + peer] != content(peer, self, number, kSizes[number])) {
            return fmt::format("message {} from rank {}", number, peer);
          }
        }
      }
      return {};
    });
  }
}

TEST(MessagesTest, MessagesOfOneGroupMeetReceivesOfSeveral) {
  // Rank 0 receives from rank 2 what that sends only after rank 1 has had both messages of rank 0:
  // whoever moved one message per peer at a time would wait for ever.
  run(3, [](Communicator& comm, Messages& messages) -> Verdict {
    const Bytes first = content(0, 1, 0, 600'000), second = content(0, 1, 1, 600'000);
    const Bytes word = content(1, 2, 0, 8), answer = content(2, 0, 0, 600'000);
    Bytes big(600'000), small(8);
    if (comm.rank() == 0) {
      const std::array sends{to(1, first), to(1, second)};
      const std::array receives{from(2, big)};
      if (auto done = messages.exchange(sends, receives); !done) return verdict_of(done);
      return big == answer ? Verdict{} : "wrong answer";
    }
    if (comm.rank() == 1) {
      for (const Bytes& wanted : {first, second}) {
        if (auto done = messages.exchange({}, std::array{from(0, big)}); !done)
          return verdict_of(done);
        if (big != wanted) return "wrong message";
      }
      return verdict_of(messages.exchange(std::array{to(2, word)}, {}));
    }
    if (auto done = messages.exchange({}, std::array{from(1, small)}); !done)
      return verdict_of(done);
    if (small != word) return "wrong word";
    return verdict_of(messages.exchange(std::array{to(0, answer)}, {}));
  });
}

TEST(MessagesTest, AMessageOfNoBytesIsWaitedFor) {
  std::atomic<bool> sent{false};
  run(2, [&](Communicator& comm, Messages& messages) -> Verdict {
    const Bytes none;
    if (comm.rank() == 0) {
      sent = true;
      return verdict_of(messages.exchange(std::array{to(1, none)}, {}));
    }
    Bytes nowhere;
    if (auto done = messages.exchange({}, std::array{from(0, nowhere)}); !done)
      return verdict_of(done);
    return sent ? Verdict{} : "received before it was sent";
  });
}

TEST(MessagesTest, DifferentLengthsAreToldToBoth) {
  run(2, [](Communicator& comm, Messages& messages) -> Verdict {
    const Bytes data(2'000'000);  // more than the ring holds: the sender waits
    Bytes room(1'000'000);
    const auto done = comm.rank() == 0 ? messages.exchange(std::array{to(1, data)}, {})
                                       : messages.exchange({}, std::array{from(0, room)});
    if (done) return "went well";
    const Errc wanted = comm.rank() == 0 ? Errc::kAborted : Errc::kInvalidArgument;
    if (done.error().code != wanted) return verdict_of(done);
    if (comm.rank() == 1) {
      EXPECT_THAT(done.error().message, HasSubstr("rank 0 sends 2000000 bytes, rank 1 receives"));
    }
    return {};
  });
}

TEST(MessagesTest, WhatIsSentToTheOwnRankIsReceivedInTheSameCall) {
  run(2, [](Communicator& comm, Messages& messages) -> Verdict {
    const Bytes data = content(0, 0, 0, 100);
    Bytes room(100), small(99);
    const std::uint32_t self = comm.rank();
    auto done = messages.exchange(std::array{to(self, data)}, {});
    if (done || done.error().code != Errc::kFailedPrecondition) return "one without the other";
    done = messages.exchange(std::array{to(self, data)}, std::array{from(self, small)});
    if (done || done.error().code != Errc::kInvalidArgument) return "of different lengths";
    // Neither has harmed the communicator.
    done = messages.exchange(std::array{to(self, data)}, std::array{from(self, room)});
    if (!done) return verdict_of(done);
    return room == data ? Verdict{} : "wrong bytes";
  });
}

TEST(MessagesTest, AWaitForARankThatDoesNotComeEnds) {
  std::atomic<bool> ended{false};
  run(
      2,
      [&](Communicator& comm, Messages& messages) -> Verdict {
        if (comm.rank() == 1) {
          // Still there, but receives nothing.
          while (!comm.async_error()) std::this_thread::yield();
          return ended ? Verdict{} : "aborted before the deadline";
        }
        Bytes room(1);
        const auto begin = std::chrono::steady_clock::now();
        const auto done = messages.exchange({}, std::array{from(1, room)});
        ended = std::chrono::steady_clock::now() - begin >= milliseconds{50};
        if (done || done.error().code != Errc::kDeadlineExceeded) return "no deadline";
        return done.error().rank == 1 ? Verdict{} : "another rank is named";
      },
      milliseconds{50});
}

TEST(MessagesTest, AnAbortEndsAWait) {
  run(2, [](Communicator& comm, Messages& messages) -> Verdict {
    if (comm.rank() == 1) {
      comm.abort();
      return {};
    }
    Bytes room(1);
    const auto done = messages.exchange({}, std::array{from(1, room)});
    return !done && done.error().code == Errc::kAborted ? Verdict{} : "not aborted";
  });
}

}  // namespace
}  // namespace imex::nccl
