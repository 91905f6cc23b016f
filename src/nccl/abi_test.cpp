// What programs compiled elsewhere rely on at run time. The numbers and layouts of exchange.md 5.3
// are checked in testing/nccl_abi.c, which is compiled against the headers of NVIDIA as well.
#include <gtest/gtest.h>
#include <imex/communicator.hpp>
#include <imex/nccl/nccl.h>

#include "status.hpp"

namespace imex::nccl {
namespace {

// The shim passes the numbers on.
static_assert(static_cast<int>(DataType::kFloat8E5m2) == ncclFloat8e5m2 &&
              static_cast<int>(DataType::kBfloat16) == ncclBfloat16 &&
              static_cast<int>(DataType::kFloat16) == ncclFloat16 &&
              static_cast<int>(ReduceOp::kSum) == ncclSum &&
              static_cast<int>(ReduceOp::kProd) == ncclProd &&
              static_cast<int>(ReduceOp::kMax) == ncclMax &&
              static_cast<int>(ReduceOp::kMin) == ncclMin &&
              static_cast<int>(ReduceOp::kAvg) == ncclAvg);

TEST(NcclAbiTest, TheConfigurationStartsWithSizeMagicAndVersion) {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(config.size, sizeof config);
  EXPECT_EQ(config.magic, 0xcafebeefU);
  EXPECT_EQ(config.version, static_cast<unsigned>(NCCL_VERSION_CODE));
  EXPECT_EQ(config.blocking, INT_MIN);
  EXPECT_EQ(config.netName, nullptr);
  EXPECT_EQ(config.nvlsCTAs, INT_MIN);
}

TEST(NcclAbiTest, TheVersionIsTheOneWhoseFunctionsAreAllHere) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 22703);
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
}

TEST(NcclAbiTest, EachErrorOfImexHasItsResult) {
  EXPECT_EQ(result_of(Errc::kInvalidArgument), ncclInvalidArgument);
  EXPECT_EQ(result_of(Errc::kFailedPrecondition), ncclInvalidUsage);
  EXPECT_EQ(result_of(Errc::kUnsupported), ncclInvalidUsage);
  EXPECT_EQ(result_of(Errc::kPeerLost), ncclRemoteError);
  EXPECT_EQ(result_of(Errc::kAborted), ncclRemoteError);
  EXPECT_EQ(result_of(Errc::kDeadlineExceeded), ncclTimeout);
  EXPECT_EQ(result_of(Errc::kResourceExhausted), ncclSystemError);
  EXPECT_EQ(result_of(Errc::kNotFound), ncclSystemError);
  EXPECT_EQ(result_of(Errc::kDataLoss), ncclInternalError);
}

TEST(NcclAbiTest, EachResultHasWordsOfItsOwn) {
  for (int a = 0; a != ncclNumResults; ++a) {
    for (int b = 0; b != a; ++b) {
      EXPECT_STRNE(ncclGetErrorString(static_cast<ncclResult_t>(a)),
                   ncclGetErrorString(static_cast<ncclResult_t>(b)));
    }
  }
  EXPECT_STREQ(ncclGetErrorString(ncclNumResults), "no result of NCCL");
}

}  // namespace
}  // namespace imex::nccl
