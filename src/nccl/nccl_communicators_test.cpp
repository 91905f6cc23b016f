// The life of communicators: configuration, progress, abort, and those made out of others.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "group.hpp"
#include "rendezvous_store.hpp"
#include "testing/nccl_ranks.hpp"

namespace imex::nccl {
namespace {

using testing::HasSubstr;
using testing_kit::Ranks;
using testing_kit::run_threads;

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    if (const auto asked = ncclCommGetAsyncError(comm, &state); asked != ncclSuccess) return asked;
    std::this_thread::yield();  // ends: each wait of the library has a deadline
  }
  return state;
}

TEST(NcclCommunicatorTest, AConfigurationIsReadByItsSize) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const auto create = [&](ncclConfig_t* given) {
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    return ncclCommInitRankConfig(&comm, 1, id, 0, given);
  };
  config.size = 20;  // as old as can be: up to `blocking`
  NCCL_OK(create(&config));
  NCCL_OK(ncclCommDestroy(comm));
  config.size = 16;
  EXPECT_EQ(create(&config), ncclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("NCCL_CONFIG_INITIALIZER"));
  struct {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    std::array<int, 14> later{};
  } larger;
  larger.known.size = sizeof larger;
  NCCL_OK(create(&larger.known));
  NCCL_OK(ncclCommDestroy(comm));
  config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  EXPECT_EQ(create(&config), ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  EXPECT_EQ(create(&config), ncclInvalidArgument);
}

TEST(NcclCommunicatorTest, ANonBlockingCommunicatorIsInProgressUntilAllIsDone) {
  run_threads(2, [](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), ncclInProgress);
    ASSERT_NE(comm, nullptr);
    ASSERT_EQ(settled(comm), ncclSuccess) << ncclGetLastError(comm);
    std::vector<int> data(100'000, rank + 1);
    ASSERT_EQ(
        ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, nullptr),
        ncclInProgress);
    ASSERT_EQ(settled(comm), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_THAT(data, testing::Each(3));
    ncclComm_t half = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, rank, 0, &half, nullptr), ncclInProgress);
    ASSERT_EQ(settled(comm), ncclSuccess);  // as PyTorch waits for it
    ASSERT_EQ(settled(half), ncclSuccess);
    int count = 0;
    EXPECT_EQ(ncclCommCount(half, &count), ncclSuccess);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);
    ASSERT_EQ(ncclCommFinalize(comm), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 1, ncclInt32, ncclSum, comm, nullptr),
              ncclInvalidUsage);
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("finalized"));
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(NcclCommunicatorTest, AbortDoesNotWaitForRanksThatNeverCome) {
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  ncclConfig_t config = non_blocking();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  int word = 0;
  EXPECT_EQ(ncclAllReduce(&word, &word, 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
  const auto begin = std::chrono::steady_clock::now();
  const std::weak_ptr<Comm> own = comm->comm;
  NCCL_OK(ncclCommAbort(comm));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  // The thread that would have waited ten minutes for rank 1 ends as well.
  while (!own.expired()) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    std::this_thread::yield();
  }
}

TEST(NcclCommunicatorTest, AbortByAnotherThreadEndsACall) {
  std::atomic<bool> first_is_done{false};
  run_threads(2, [&](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
    std::vector<int> data(1000);
    const auto sum = [&] {
      return ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm,
                           nullptr);
    };
    if (rank == 1) {
      // Takes part in the first of two operations of rank 0's group, so that this is inside.
      ASSERT_EQ(sum(), ncclSuccess);
      first_is_done = true;
      ncclResult_t state = ncclSuccess;
      while (state == ncclSuccess) {
        ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
        std::this_thread::yield();
      }
      EXPECT_EQ(state, ncclRemoteError);
      EXPECT_THAT(ncclGetLastError(comm), HasSubstr("aborted by rank 0"));
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    std::thread caller([&] {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(sum(), ncclSuccess);
      EXPECT_EQ(sum(), ncclSuccess);
      EXPECT_EQ(ncclGroupEnd(), ncclRemoteError);
    });
    while (!first_is_done) std::this_thread::yield();
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    caller.join();
  });
}

TEST(NcclCommunicatorTest, SplitOrdersByKeyAndLeavesOutWhoWantsNone) {
  const Ranks ranks(4);
  std::array<ncclComm_t, 4> parts{};
  // 0 and 2 in reverse order, 3 alone, 1 nowhere.
  constexpr std::array<int, 4> kColors{7, NCCL_SPLIT_NOCOLOR, 7, 0}, kKeys{5, 0, -5, 0};
  NCCL_OK(ranks.group([&](std::size_t rank) {
    return ncclCommSplit(ranks[rank], kColors[rank], kKeys[rank], &parts[rank], nullptr);
  }));
  EXPECT_EQ(parts[1], nullptr);
  int rank = -1, count = -1;
  NCCL_OK(ncclCommUserRank(parts[0], &rank));
  NCCL_OK(ncclCommCount(parts[0], &count));
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(count, 2);
  NCCL_OK(ncclCommUserRank(parts[2], &rank));
  EXPECT_EQ(rank, 0);
  std::array<int, 4> values{1, 2, 3, 4};
  NCCL_OK(ncclGroupStart());
  for (const std::size_t member : {0U, 2U, 3U}) {
    NCCL_OK(ncclAllReduce(&values[member], &values[member], 1, ncclInt32, ncclSum, parts[member],
                          nullptr));
  }
  NCCL_OK(ncclGroupEnd());
  EXPECT_THAT(values, testing::ElementsAre(4, 2, 4, 4));
  for (ncclComm_t part : parts) EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
}

TEST(NcclCommunicatorTest, ShrinkGoesOnWithoutARank) {
  for (const int flags : {NCCL_SHRINK_DEFAULT, NCCL_SHRINK_ABORT}) {
    const Ranks ranks(3);
    std::array<ncclComm_t, 3> rest{};
    int excluded = 1;
    NCCL_OK(ncclGroupStart());
    for (const std::size_t rank : {0U, 2U}) {
      NCCL_OK(ncclCommShrink(ranks[rank], &excluded, 1, &rest[rank], nullptr, flags));
    }
    NCCL_OK(ncclGroupEnd());
    std::array<int, 2> values{5, 6};
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(&values[0], &values[0], 1, ncclInt32, ncclMax, rest[0], nullptr));
    NCCL_OK(ncclAllReduce(&values[1], &values[1], 1, ncclInt32, ncclMax, rest[2], nullptr));
    NCCL_OK(ncclGroupEnd());
    EXPECT_THAT(values, testing::Each(6));
    int word = 0;
    const auto of_parent = flags == NCCL_SHRINK_ABORT ? ncclInvalidUsage : ncclSuccess;
    EXPECT_EQ(ncclRecv(&word, 0, ncclInt32, 0, ranks[0], nullptr), ncclInvalidUsage);
    NCCL_OK(ncclGroupStart());
    EXPECT_EQ(ncclSend(&word, 0, ncclInt32, 0, ranks[0], nullptr), of_parent);
    EXPECT_EQ(ncclRecv(&word, 0, ncclInt32, 0, ranks[0], nullptr), of_parent);
    EXPECT_EQ(ncclGroupEnd(), of_parent);
    NCCL_OK(ncclCommDestroy(rest[0]));
    NCCL_OK(ncclCommDestroy(rest[2]));
  }
}

TEST(NcclCommunicatorTest, GrowTakesInMoreRanks) {
  const Ranks ranks(2);
  ncclUniqueId id;
  NCCL_OK(ncclCommGetUniqueId(ranks[1], &id));
  std::array<ncclComm_t, 3> all{};
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclCommGrow(ranks[0], 3, nullptr, -1, &all[0], nullptr));
  NCCL_OK(ncclCommGrow(ranks[1], 3, &id, -1, &all[1], nullptr));
  NCCL_OK(ncclCommGrow(nullptr, 3, &id, 2, &all[2], nullptr));
  NCCL_OK(ncclGroupEnd());
  std::array<int, 3> values{1, 10, 100};
  NCCL_OK(ncclGroupStart());
  for (std::size_t rank = 0; rank != 3; ++rank) {
    NCCL_OK(ncclAllReduce(&values[rank], &values[rank], 1, ncclInt32, ncclSum, all[rank], nullptr));
  }
  NCCL_OK(ncclGroupEnd());
  EXPECT_THAT(values, testing::Each(111));
  for (ncclComm_t comm : all) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclCommGrow(ranks[0], 2, &id, -1, &all[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGrow(nullptr, 3, nullptr, 2, &all[0], nullptr), ncclInvalidArgument);
  // An id that no rank has passed is told to all.
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclCommGrow(ranks[0], 3, nullptr, -1, &all[0], nullptr));
  NCCL_OK(ncclCommGrow(ranks[1], 3, nullptr, -1, &all[1], nullptr));
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
}

TEST(NcclCommunicatorTest, CallsOfAnotherThreadMeanwhileAreRefused) {
  std::atomic<bool> told{false};
  run_threads(2, [&](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
    int word = 1;
    if (rank == 0) {
      std::thread receiver([&] {
        ncclResult_t received = ncclInvalidUsage;
        while (received == ncclInvalidUsage) {  // while the other thread is inside
          received = ncclRecv(&word, 1, ncclInt32, 1, comm, nullptr);
        }
        EXPECT_EQ(received, ncclSuccess);
      });
      // Until the receiver is inside, a message to itself goes through; then it is refused.
      ncclResult_t result = ncclSuccess;
      while (result == ncclSuccess) {
        EXPECT_EQ(ncclGroupStart(), ncclSuccess);
        EXPECT_EQ(ncclSend(nullptr, 0, ncclInt32, 0, comm, nullptr), ncclSuccess);
        EXPECT_EQ(ncclRecv(nullptr, 0, ncclInt32, 0, comm, nullptr), ncclSuccess);
        result = ncclGroupEnd();
      }
      EXPECT_EQ(result, ncclInvalidUsage);
      EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("busy with a call of another thread"));
      // The other rank sends once it is told, by other means.
      EXPECT_EQ(told.exchange(true), false);
      receiver.join();
      EXPECT_EQ(word, 7);
    } else {
      while (!told) std::this_thread::yield();
      word = 7;
      EXPECT_EQ(ncclSend(&word, 1, ncclInt32, 0, comm, nullptr), ncclSuccess);
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(NcclCommunicatorTest, APlaceToMeetIsGivenUpOnceAllHaveMet) {
  RendezvousStore& store = RendezvousStore::instance();
  const std::size_t before = store.size();
  run_threads(2, [&](int rank, const ncclUniqueId& id) {
    EXPECT_LE(store.size(), before + 1);
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_EQ(store.size(), before);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  ncclUniqueId id;
  for (std::size_t i = 0; i != RendezvousStore::kRendezvousMax + 10; ++i) {
    NCCL_OK(ncclGetUniqueId(&id));
  }
  EXPECT_EQ(store.size(), RendezvousStore::kRendezvousMax);
}

}  // namespace
}  // namespace imex::nccl
