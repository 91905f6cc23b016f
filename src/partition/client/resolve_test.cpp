#include "partition/client/resolve.hpp"

#include <gmock/gmock.h>

#include "partition/client/testing/scripted_controller.hpp"

namespace imex::partition::client {
namespace {

using testing::HasSubstr;
using Asked = ScriptedController::Asked;

net::http::Response three_partitions(const Asked&) {
  return list_of(partition_json(1, "training") + "," + partition_json(2, "twin") + "," +
                     partition_json(3, "twin"),
                 3);
}

TEST(ResolveTest, AnIdIsTakenAtItsWord) {
  const ScriptedController controller(three_partitions);
  EXPECT_EQ(*find_partition(*controller.client(), uuid_text(55)), LogicalPartitionId{uuid_of(55)});
  EXPECT_TRUE(controller.asked().empty());
}

TEST(ResolveTest, ANameThatOnlyOneHasIsFound) {
  const ScriptedController controller(three_partitions);
  EXPECT_EQ(*find_partition(*controller.client(), "training"), LogicalPartitionId{uuid_of(1)});
}

TEST(ResolveTest, ANameThatTwoHaveNamesTheirIds) {
  const ScriptedController controller(three_partitions);
  const auto found = find_partition(*controller.client(), "twin");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::kFailedPrecondition);
  EXPECT_THAT(found.error().hint, HasSubstr(uuid_text(2)));
  EXPECT_THAT(found.error().hint, HasSubstr(uuid_text(3)));
}

TEST(ResolveTest, AnUnknownNameListsTheKnownOnes) {
  const ScriptedController controller(three_partitions);
  const auto found = find_partition(*controller.client(), "trainig");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::kNotFound);
  EXPECT_THAT(found.error().hint, HasSubstr("training, twin"));
}

TEST(ResolveTest, TheOnlySiteNeedsNoName) {
  const std::string site =
      R"({"id":")" + uuid_text(900) +
      R"(","name":"here","status":"Registered","capabilities":{"nvLinkPartition":true}})";
  const ScriptedController one([&](const Asked&) { return list_of(site, 1); });
  EXPECT_EQ(*find_site(*one.client(), ""), SiteId{uuid_of(900)});

  const ScriptedController none([&](const Asked&) { return list_of("", 0); });
  EXPECT_EQ(find_site(*none.client(), "").error().code, Errc::kFailedPrecondition);
}

}  // namespace
}  // namespace imex::partition::client
