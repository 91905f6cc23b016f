// The exported functions within one process: ranks as threads, and ranks in one thread's groups.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imex/nccl/nccl.h>

#include "rendezvous_store.hpp"

extern "C" {
ncclResult_t ncclCommGrow();
ncclResult_t pncclDevCommCreate();
}

namespace imex::nccl {
namespace {

using testing::HasSubstr;

#define NCCL_OK(call) ASSERT_EQ(call, ncclSuccess) << ncclGetLastError(nullptr)

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

/// Ranks of one thread.
class Ranks {
 public:
  explicit Ranks(int ranks) : comms_(static_cast<std::size_t>(ranks)) {
    EXPECT_EQ(ncclCommInitAll(comms_.data(), ranks, nullptr), ncclSuccess)
        << ncclGetLastError(nullptr);
  }
  ~Ranks() {
    for (ncclComm_t comm : comms_) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  ncclComm_t operator[](std::size_t rank) const { return comms_[rank]; }
  [[nodiscard]] std::size_t size() const { return comms_.size(); }

  /// Runs `call` for each rank in one group.
  ncclResult_t group(const std::function<ncclResult_t(std::size_t)>& call) const {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (std::size_t rank = 0; rank != size(); ++rank) EXPECT_EQ(call(rank), ncclSuccess);
    return ncclGroupEnd();
  }

 private:
  std::vector<ncclComm_t> comms_;
};

/// Runs `body` as each rank on a thread of its own.
void run_threads(int ranks, const std::function<void(int, const ncclUniqueId&)>& body) {
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank != ranks; ++rank) threads.emplace_back(body, rank, id);
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclTest, OneThreadHoldsAllRanks) {
  const Ranks ranks(3);
  std::array<std::array<float, 4>, 3> data{};
  for (std::size_t rank = 0; rank != 3; ++rank) data[rank].fill(static_cast<float>(rank + 1));
  NCCL_OK(ranks.group([&](std::size_t rank) {
    return ncclAllReduce(data[rank].data(), data[rank].data(), 4, ncclFloat32, ncclSum, ranks[rank],
                         nullptr);
  }));
  for (const auto& each : data) EXPECT_THAT(each, testing::Each(6.0F));
  int count = 0, rank = 0, device = 0;
  NCCL_OK(ncclCommCount(ranks[2], &count));
  NCCL_OK(ncclCommUserRank(ranks[2], &rank));
  NCCL_OK(ncclCommCuDevice(ranks[2], &device));
  EXPECT_EQ(count, 3);
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(device, 2);
}

TEST(NcclTest, AGroupMixesCollectivesAndMessagesOfSeveralRanks) {
  const Ranks ranks(3);
  std::array<std::int64_t, 3> sums{}, from_left{}, from_right{}, own{1, 10, 100};
  NCCL_OK(ranks.group([&](std::size_t rank) {
    const int left = static_cast<int>((rank + 2) % 3), right = static_cast<int>((rank + 1) % 3);
    const ncclComm_t comm = ranks[rank];
    std::vector<ncclResult_t> results{
        ncclRecv(&from_left[rank], 1, ncclInt64, left, comm, nullptr),
        ncclSend(&own[rank], 1, ncclInt64, left, comm, nullptr),
        ncclAllReduce(&own[rank], &sums[rank], 1, ncclInt64, ncclSum, comm, nullptr),
        ncclSend(&own[rank], 1, ncclInt64, right, comm, nullptr),
        ncclRecv(&from_right[rank], 1, ncclInt64, right, comm, nullptr)};
    EXPECT_THAT(results, testing::Each(ncclSuccess));
    return ncclSuccess;
  }));
  EXPECT_THAT(sums, testing::Each(111));
  EXPECT_THAT(from_left, testing::ElementsAre(100, 1, 10));
  EXPECT_THAT(from_right, testing::ElementsAre(10, 100, 1));
}

TEST(NcclTest, NothingOfAGroupWithAWrongCallRuns) {
  const Ranks ranks(2);
  int sent = 5, received = 0;
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclSend(&sent, 1, ncclInt32, 0, ranks[0], nullptr));
  NCCL_OK(ncclRecv(&received, 1, ncclInt32, 0, ranks[0], nullptr));
  EXPECT_EQ(ncclSend(&sent, 1, ncclInt32, 2, ranks[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("rank 2 of 2 ranks"));
  EXPECT_EQ(received, 0);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);  // none is open any more
}

TEST(NcclTest, ASimulatedGroupRunsNothing) {
  const Ranks ranks(1);
  int sent = 5, received = 0;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  info.estimatedTime = 3;
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclAllReduce(&sent, &received, 1, ncclInt32, ncclSum, ranks[0], nullptr));
  NCCL_OK(ncclGroupSimulateEnd(&info));
  EXPECT_EQ(info.estimatedTime, NCCL_UNDEF_FLOAT);
  EXPECT_EQ(received, 0);
  info.magic = 1;
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
}

TEST(NcclTest, ArgumentsAreCheckedBeforeAnythingIsWaitedFor) {
  const Ranks ranks(2);
  int word = 0;
  const auto type = [](int number) { return static_cast<ncclDataType_t>(number); };
  EXPECT_EQ(ncclAllReduce(&word, nullptr, 1, ncclInt32, ncclSum, ranks[0], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(&word, &word, 1, type(12), ncclSum, ranks[0], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(
      ncclAllReduce(&word, &word, 1, ncclInt32, static_cast<ncclRedOp_t>(5), ranks[0], nullptr),
      ncclInvalidArgument);
  EXPECT_EQ(ncclBroadcast(&word, &word, 1, ncclInt32, -1, ranks[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclAllGather(&word, &word, SIZE_MAX / 8, ncclInt64, ranks[0], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(&word, &word, 1, ncclInt32, ncclSum, nullptr, nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("communicator is NULL"));
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, ncclUniqueId{}, 2), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 1, ncclUniqueId{}, 0), ncclInvalidArgument);  // no id
  EXPECT_EQ(comm, nullptr);
}

TEST(NcclTest, AConfigurationIsReadByItsSize) {
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

TEST(NcclTest, ANonBlockingCommunicatorIsInProgressUntilAllIsDone) {
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

TEST(NcclTest, AbortDoesNotWaitForRanksThatNeverCome) {
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  ncclConfig_t config = non_blocking();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  int word = 0;
  EXPECT_EQ(ncclAllReduce(&word, &word, 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
  const auto begin = std::chrono::steady_clock::now();
  NCCL_OK(ncclCommAbort(comm));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST(NcclTest, AbortByAnotherThreadEndsACall) {
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

TEST(NcclTest, SplitOrdersByKeyAndLeavesOutWhoWantsNone) {
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

TEST(NcclTest, ShrinkGoesOnWithoutARank) {
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

TEST(NcclTest, APremultipliedSumScalesEachRanksInput) {
  const Ranks ranks(2);
  std::array<float, 2> factors{0.5F, 3.0F}, values{8.0F, 1.0F}, sums{};
  std::array<ncclRedOp_t, 2> ops{};
  NCCL_OK(ncclRedOpCreatePreMulSum(&ops[0], &factors[0], ncclFloat32, ncclScalarHostImmediate,
                                   ranks[0]));
  NCCL_OK(ncclRedOpCreatePreMulSum(&ops[1], &factors[1], ncclFloat32, ncclScalarDevice, ranks[1]));
  EXPECT_GE(ops[0], ncclNumOps);
  factors = {99.0F, 2.0F};  // the first was read, the second will be
  double wrong_type = 1;
  EXPECT_EQ(ncclAllReduce(&wrong_type, &wrong_type, 1, ncclFloat64, ops[0], ranks[0], nullptr),
            ncclInvalidArgument);
  NCCL_OK(ncclGroupStart());
  for (std::size_t rank = 0; rank != 2; ++rank) {
    NCCL_OK(
        ncclAllReduce(&values[rank], &sums[rank], 1, ncclFloat32, ops[rank], ranks[rank], nullptr));
    NCCL_OK(ncclRedOpDestroy(ops[rank], ranks[rank]));  // the call keeps what it needs
  }
  NCCL_OK(ncclGroupEnd());
  EXPECT_THAT(sums, testing::Each(6.0F));
  EXPECT_EQ(ncclRedOpDestroy(ops[0], ranks[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(&values[0], &sums[0], 1, ncclFloat32, ops[0], ranks[0], nullptr),
            ncclInvalidArgument);
}

TEST(NcclTest, MemoryIsAlignedAndRegistrationsAreKnown) {
  const Ranks ranks(1);
  void* memory = nullptr;
  NCCL_OK(ncclMemAlloc(&memory, 10'000));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0U);
  std::memset(memory, 1, 10'000);
  void* handle = nullptr;
  NCCL_OK(ncclCommRegister(ranks[0], memory, 10'000, &handle));
  ncclWindow_t window = nullptr;
  NCCL_OK(ncclCommWindowRegister(ranks[0], memory, 10'000, &window, NCCL_WIN_COLL_SYMMETRIC));
  void* back = nullptr;
  NCCL_OK(ncclWinGetUserPtr(ranks[0], window, &back));
  EXPECT_EQ(back, memory);
  NCCL_OK(ncclCommWindowDeregister(ranks[0], window));
  EXPECT_EQ(ncclCommWindowDeregister(ranks[0], window), ncclInvalidArgument);
  NCCL_OK(ncclCommDeregister(ranks[0], handle));
  NCCL_OK(ncclMemFree(memory));
  EXPECT_EQ(ncclMemAlloc(&memory, SIZE_MAX), ncclSystemError);
}

TEST(NcclTest, APlaceToMeetIsGivenUpOnceAllHaveMet) {
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

TEST(NcclTest, EverythingHasItsNameForProfilers) {
  EXPECT_EQ(&pncclAllReduce, &ncclAllReduce);
  EXPECT_EQ(&pncclCommShrink, &ncclCommShrink);
  EXPECT_EQ(&pncclGetErrorString, &ncclGetErrorString);
}

TEST(NcclTest, WhatCannotBeDoneIsRefusedWithAReason) {
  EXPECT_EQ(ncclCommGrow(), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("ncclCommGrow: communicators do not grow"));
  EXPECT_EQ(pncclDevCommCreate(), ncclInvalidUsage);
  EXPECT_EQ(ncclCommDestroy(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(nullptr), ncclSuccess);
}

/// Waits end well before the test does, also those that nobody waits for any more.
class ShortWaits : public testing::Environment {
 public:
  void SetUp() override {
    ::setenv("IMEX_NCCL_TIMEOUT_MS", "20000", 1);  // NOLINT(concurrency-mt-unsafe)
  }
};
const auto* const kShortWaits = testing::AddGlobalTestEnvironment(new ShortWaits);

}  // namespace
}  // namespace imex::nccl
