#include "fabric/manager.hpp"

#include <gtest/gtest.h>

namespace imex::fabric {
namespace {

TEST(NmxCodeTest, EveryNamedCodeIsFoundByItsName) {
  for (std::uint32_t number = 0; number < 600; ++number) {
    const auto code = static_cast<NmxCode>(number);
    const std::string name = nmx_code_name(code);
    EXPECT_EQ(nmx_code_from_name(name), code) << name;
    EXPECT_EQ(nmx_code_info(code).code, code);
  }
  EXPECT_EQ(nmx_code_from_name("NMX_ST_"), std::nullopt);
  EXPECT_EQ(nmx_code_from_name("NMX_ST_12x"), std::nullopt);
  EXPECT_EQ(nmx_code_from_name("conflict"), std::nullopt);
}

TEST(NmxCodeTest, OnlyRefusalsAreCertain) {
  // A refusal after a check changed nothing; a failure of the controller may have changed anything.
  for (const NmxCode code :
       {NmxCode::kBadParam, NmxCode::kResourceInUse, NmxCode::kResourceExhausted,
        NmxCode::kPartitionIdNotInUse, NmxCode::kNotReady, NmxCode::kConnectionNotValid})
    EXPECT_EQ(nmx_code_info(code).effect, Effect::kNone) << nmx_code_name(code);
  for (const NmxCode code :
       {NmxCode::kUndefined, NmxCode::kGenericError, NmxCode::kTimeout,
        NmxCode::kRouteProgrammingError, NmxCode::kControllerDbError, NmxCode{77}})
    EXPECT_EQ(nmx_code_info(code).effect, Effect::kUnknown) << nmx_code_name(code);
}

TEST(NmxCodeTest, AnErrorNamesObjectCodeAndNextStep) {
  const Error error = nmx_error(NmxCode::kResourceInUse, "create partition 'lp-7'");
  EXPECT_EQ(error.code, Errc::kAlreadyExists);
  EXPECT_EQ(
      error.message,
      "create partition 'lp-7': GPU or port is held by a partition (NMX_ST_RESOURCE_IN_USE, 13)");
  EXPECT_FALSE(error.hint.empty());
  EXPECT_EQ(nmx_error(NmxCode{77}, "x").message,
            "x: a return code that this release does not know (NMX_ST_77, 77)");
}

TEST(SnapshotTest, FindsByKeyAndByMembership) {
  Snapshot snapshot;
  snapshot.gpus = {{.uid = 3}, {.uid = 5}, {.uid = 9}};
  snapshot.partitions = {{.id = 2, .name = "a", .gpu_uids = {3, 7}},
                         {.id = 40, .name = "Default", .gpu_uids = {5}}};
  ASSERT_NE(snapshot.find_gpu(5), nullptr);
  EXPECT_EQ(snapshot.find_gpu(5)->uid, 5U);
  EXPECT_EQ(snapshot.find_gpu(4), nullptr);
  EXPECT_EQ(snapshot.find_partition(3), nullptr);
  ASSERT_NE(snapshot.partition_of(7), nullptr) << "a member whose tray is off is still a member";
  EXPECT_EQ(snapshot.partition_of(7)->id, 2U);
  EXPECT_EQ(snapshot.partition_of(9), nullptr);
  ASSERT_NE(snapshot.default_partition(), nullptr);
  EXPECT_EQ(snapshot.default_partition()->id, 40U);
  EXPECT_FALSE(snapshot.can_change());
  snapshot.control_plane = ControlPlaneState::kConfigured;
  EXPECT_TRUE(snapshot.can_change());
}

TEST(TextTest, UnlistedNumbersAreUnknown) {
  EXPECT_EQ(to_text(GpuHealth{99}), "unknown");
  EXPECT_EQ(to_text(PartitionHealth::kNew), "new");
  EXPECT_EQ(to_text(ControlPlaneState::kDegraded), "degraded");
  EXPECT_EQ(to_text(FabricEvent::Kind::kSplit), "split");
}

}  // namespace
}  // namespace imex::fabric
