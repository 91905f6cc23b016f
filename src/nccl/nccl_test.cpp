// The exported operations and groups: arguments, order, what a group holds.
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "testing/nccl_ranks.hpp"

extern "C" {  // of later releases than the header's
// NOLINTNEXTLINE(readability-identifier-naming)
ncclResult_t ncclPutSignal();
// NOLINTNEXTLINE(readability-identifier-naming)
ncclResult_t pncclDevCommCreate();
}

namespace imex::nccl {
namespace {

using testing::HasSubstr;
using testing_kit::Ranks;

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

TEST(NcclTest, PartsGoToAllFromAllToOneAndFromOne) {
  const Ranks ranks(3);
  constexpr std::size_t kPart = 5;
  using Vector = std::vector<std::int16_t>;  // as 2 * kPart elements of i8
  std::array<Vector, 3> in, out;
  for (std::size_t rank = 0; rank != 3; ++rank) {
    for (std::size_t i = 0; i != 3 * kPart; ++i) {
      in[rank].push_back(static_cast<std::int16_t>(1000 * rank + i));
    }
    out[rank].assign(3 * kPart, -1);
  }
  NCCL_OK(ranks.group([&](std::size_t rank) {
    return ncclAlltoAll(in[rank].data(), out[rank].data(), 2 * kPart, ncclInt8, ranks[rank],
                        nullptr);
  }));
  for (std::size_t rank = 0; rank != 3; ++rank) {
    for (std::size_t i = 0; i != 3 * kPart; ++i) {
      EXPECT_EQ(out[rank][i],
                static_cast<std::int16_t>(i / kPart * 1000 + rank * kPart + i % kPart));
    }
  }
  // All first parts to rank 2, in place there: its own first part lies third.
  Vector gathered(3 * kPart, -1);
  std::copy_n(in[2].begin(), kPart, gathered.begin() + 2 * kPart);
  NCCL_OK(ranks.group([&](std::size_t rank) {
    const void* own = rank == 2 ? &gathered[2 * kPart] : in[rank].data();
    return ncclGather(own, rank == 2 ? gathered.data() : nullptr, 2 * kPart, ncclInt8, 2,
                      ranks[rank], nullptr);
  }));
  for (std::size_t i = 0; i != 3 * kPart; ++i) {
    EXPECT_EQ(gathered[i], static_cast<std::int16_t>(i / kPart * 1000 + i % kPart));
  }
  // And back: rank 2's parts to the others.
  NCCL_OK(ranks.group([&](std::size_t rank) {
    return ncclScatter(rank == 2 ? gathered.data() : nullptr, out[rank].data(), 2 * kPart, ncclInt8,
                       2, ranks[rank], nullptr);
  }));
  for (std::size_t rank = 0; rank != 3; ++rank) {
    for (std::size_t i = 0; i != kPart; ++i) {
      EXPECT_EQ(out[rank][i], static_cast<std::int16_t>(rank * 1000 + i));
    }
  }
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

TEST(NcclTest, EverythingHasItsNameForProfilers) {
  EXPECT_EQ(&pncclAllReduce, &ncclAllReduce);
  EXPECT_EQ(&pncclCommShrink, &ncclCommShrink);
  EXPECT_EQ(&pncclGetErrorString, &ncclGetErrorString);
}

TEST(NcclTest, WhatCannotBeDoneIsRefusedWithAReason) {
  EXPECT_EQ(ncclPutSignal(), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("ncclPutSignal: windows are not mapped"));
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
