// The client against a scripted server: what it sends, what it makes of answers, and what it
// refuses to believe.

#include "partition/client/client.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "partition/client/testing/scripted_controller.hpp"

namespace imex::partition::client {
namespace {

using net::http::Method;
using net::http::Response;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Asked = ScriptedController::Asked;

const LogicalPartitionId kPartition{uuid_of(1)};
const InstanceId kInstance{uuid_of(10)};

TEST(ControllerClientTest, SendsTokenOrgAndBody) {
  const ScriptedController controller(
      [](const Asked&) { return Response::json(201, partition_json(1, "training")); });
  const auto made =
      controller.client()->create_partition({.name = "training", .site = SiteId{uuid_of(900)}});
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(made->id, kPartition);
  EXPECT_EQ(made->status, Status::kReady);
  EXPECT_EQ(made->gpus, 4U);
  EXPECT_EQ(made->history.front().message, "as told");

  const auto asked = controller.asked();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].method, Method::kPost);
  EXPECT_EQ(asked[0].target, "/nvlink-logical-partition");
  EXPECT_EQ(asked[0].authorization, "Bearer t0ken");
  EXPECT_EQ(nlohmann::json::parse(asked[0].body),
            (nlohmann::json{{"name", "training"}, {"siteId", uuid_text(900)}}));
}

TEST(ControllerClientTest, ListsAreReadToTheirLastPage) {
  // 150 objects in pages of 100; the one that moved between the pages is not there twice.
  const ScriptedController controller([](const Asked& asked) {
    const bool first = asked.target.find("pageNumber=1&") != std::string::npos;
    std::string items;
    for (unsigned i = first ? 0 : 99; i < (first ? 100U : 150U); ++i) {
      if (!items.empty()) items += ',';
      items += partition_json(i + 1, fmt::format("p{}", i));
    }
    return list_of(items, 150);
  });
  const auto all = controller.client()->partitions();
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_EQ(all->size(), 150U);
  EXPECT_EQ(controller.asked().size(), 2U);
}

TEST(ControllerClientTest, AListThatPromisesMoreThanItGivesEnds) {
  const ScriptedController controller([](const Asked&) { return list_of("", 5); });
  const auto all = controller.client()->partitions();
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->empty());
}

TEST(ControllerClientTest, InterfacesAreDecodedWithUidsBeyondDoubles) {
  const ScriptedController controller([](const Asked&) {
    return Response::json(
        200, instance_json(10, "a", "Ready",
                           interface_json(21, 10, 1, 1, "Ready", '"' + uuid_text(77) + '"',
                                          "\"18446744073709551615\"") +
                               "," + interface_json(20, 10, 1, 0, "Pending")));
  });
  const auto instance = controller.client()->instance(kInstance);
  ASSERT_TRUE(instance) << instance.error().to_string();
  ASSERT_EQ(instance->interfaces.size(), 2U);
  EXPECT_EQ(instance->interfaces[0].device_instance, 0U);
  EXPECT_EQ(instance->interfaces[0].gpu_uid, std::nullopt);
  EXPECT_EQ(instance->interfaces[1].gpu_uid, UINT64_MAX);
  EXPECT_EQ(instance->interfaces[1].domain, DomainId{uuid_of(77)});
  EXPECT_EQ(instance->machine, "tray-7");
  EXPECT_EQ(instance->labels.at("team"), "a");
}

TEST(ControllerClientTest, ReplacingGpusSendsTheCompleteSetAndClearingAnEmptyOne) {
  const ScriptedController controller(
      [](const Asked&) { return Response::json(200, instance_json(10, "a", "Ready", "")); });
  const auto client = controller.client();
  ASSERT_TRUE(client->update_instance(
      kInstance, {.gpus = std::vector<GpuBinding>{{0, kPartition}, {3, kPartition}}}));
  ASSERT_TRUE(client->update_instance(kInstance, {.gpus = std::vector<GpuBinding>{}}));
  ASSERT_TRUE(client->update_instance(kInstance, {.name = "b"}));
  const auto asked = controller.asked();
  ASSERT_EQ(asked.size(), 3U);
  const auto first = nlohmann::json::parse(asked[0].body);
  ASSERT_EQ(first["nvLinkInterfaces"].size(), 2U);
  EXPECT_EQ(first["nvLinkInterfaces"][1],
            (nlohmann::json{{"deviceInstance", 3}, {"nvLinkLogicalPartitionId", uuid_text(1)}}));
  EXPECT_EQ(nlohmann::json::parse(asked[1].body)["nvLinkInterfaces"], nlohmann::json::array());
  EXPECT_FALSE(nlohmann::json::parse(asked[2].body).contains("nvLinkInterfaces"));
}

TEST(ControllerClientTest, ADefaultOfAVpcIsClearedByEmptyText) {
  const ScriptedController controller([](const Asked&) { return Response::json(500, "{}"); });
  static_cast<void>(
      controller.client()->update_vpc(VpcId{uuid_of(5)}, {.clear_default_partition = true}));
  EXPECT_EQ(controller.asked()[0].body, R"({"nvLinkLogicalPartitionId":""})");
}

TEST(ControllerClientTest, AnInstanceAlwaysHasANetworkInterfaceAndSomethingToBoot) {
  const ScriptedController controller(
      [](const Asked&) { return Response::json(201, instance_json(10, "a", "Pending", "")); });
  ASSERT_TRUE(controller.client()->create_instance({.name = "a",
                                                    .tenant = TenantId{uuid_of(901)},
                                                    .vpc = VpcId{uuid_of(902)},
                                                    .machine = "tray-7"}));
  const auto body = nlohmann::json::parse(controller.asked()[0].body);
  EXPECT_EQ(body["interfaces"].size(), 1U);
  EXPECT_TRUE(body.contains("ipxeScript"));
  EXPECT_FALSE(body.contains("nvLinkInterfaces"));  // the VPC's default, if there is one
  EXPECT_FALSE(body.contains("instanceTypeId"));
}

TEST(ControllerClientTest, ABatchHasAPrefixAndACount) {
  const ScriptedController controller([](const Asked&) {
    return Response::json(201, "[" + instance_json(10, "a-1", "Pending", "") + "," +
                                   instance_json(11, "a-2", "Pending", "") + "]");
  });
  const auto made = controller.client()->create_instances({.name = "a"}, 2);
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ((*made)[1].name, "a-2");
  const auto asked = controller.asked()[0];
  EXPECT_EQ(asked.target, "/instance/batch");
  const auto body = nlohmann::json::parse(asked.body);
  EXPECT_EQ(body["namePrefix"], "a");
  EXPECT_EQ(body["count"], 2);
  EXPECT_FALSE(body.contains("name"));
}

struct RefusalCase {
  unsigned status;
  std::string body;
  Errc code;
  std::string text;
};

class RefusalTest : public testing::TestWithParam<RefusalCase> {};

TEST_P(RefusalTest, StatusAndDataBecomeCodeAndText) {
  const ScriptedController controller(
      [](const Asked&) { return Response::json(GetParam().status, GetParam().body); });
  const auto made = controller.client()->create_partition({.name = "x"});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, GetParam().code);
  EXPECT_THAT(made.error().message, HasSubstr("create partition 'x'"));
  EXPECT_THAT(made.error().message, HasSubstr(GetParam().text));
}
INSTANTIATE_TEST_SUITE_P(
    Statuses, RefusalTest,
    testing::Values(RefusalCase{400,
                                R"({"source":"nico","message":"bad","data":{"name":"too short"}})",
                                Errc::kInvalidArgument, "400: bad (name: too short)"},
                    RefusalCase{401, R"({"source":"nico","message":"expired","data":null})",
                                Errc::kPermissionDenied, "expired"},
                    RefusalCase{403, R"({"source":"nico","message":"no","data":null})",
                                Errc::kPermissionDenied, "no"},
                    RefusalCase{404, "", Errc::kNotFound, "Not Found"},
                    RefusalCase{409, R"({"source":"nico","message":"taken","data":{"id":"7"}})",
                                Errc::kAlreadyExists, "taken (id: 7)"},
                    RefusalCase{409, R"({"source":"nico","message":"no room","data":null})",
                                Errc::kFailedPrecondition, "no room"},
                    RefusalCase{429, "{}", Errc::kResourceExhausted, "429"},
                    RefusalCase{500, "<html>\x1b[2J</html>", Errc::kInternal, "500"},
                    RefusalCase{501, "{}", Errc::kUnsupported, "501"},
                    RefusalCase{503, "{}", Errc::kUnavailable, "503"}));

TEST(ControllerClientTest, ADeleteThatIsRefusedSaysWhatStillNeedsTheObject) {
  const ScriptedController controller([](const Asked&) {
    return Response::json(400, R"({"source":"nico","message":"in use","data":{"vpcIds":["v"]}})");
  });
  const auto gone = controller.client()->delete_partition(kPartition);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::kFailedPrecondition);
  EXPECT_THAT(gone.error().message, HasSubstr(R"(vpcIds: ["v"])"));
}

class BadAnswerTest : public testing::TestWithParam<std::string> {};

TEST_P(BadAnswerTest, IsNotBelieved) {
  const ScriptedController controller([](const Asked&) { return Response::json(200, GetParam()); });
  const auto view = controller.client()->partition(kPartition);
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code, Errc::kDataLoss);
  EXPECT_THAT(view.error().message, HasSubstr("answer to get partition"));
}
INSTANTIATE_TEST_SUITE_P(
    Bodies, BadAnswerTest,
    testing::Values("", "nonsense", "[]", "null", R"({"id":"7"})",
                    // right but for one thing each: state, id, counts
                    partition_json(1, "a", "Registered"), partition_json(1, "a", "Sleeping"),
                    R"({"id":"x","name":"a","siteId":"x","status":"Ready"})",
                    R"({"id":"00000000-0000-4000-8000-000000000001","name":"a",)"
                    R"("siteId":"00000000-0000-4000-8000-000000000001","status":"Ready",)"
                    R"("nvLinkLogicalPartitionStats":{"totalGpus":-1}})"));

TEST(ControllerClientTest, AListWithoutItsHeaderIsNotBelieved) {
  const ScriptedController controller([](const Asked&) { return Response::json(200, "[]"); });
  const auto all = controller.client()->partitions();
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, Errc::kDataLoss);
  EXPECT_THAT(all.error().message, HasSubstr("X-Pagination"));
}

TEST(ControllerClientTest, NobodyThereIsUnavailable) {
  std::string url;
  {
    const ScriptedController controller([](const Asked&) { return Response::json(200, "{}"); });
    url = controller.url();
  }
  const auto client = Client::make({.url = url, .org = "acme"});
  ASSERT_TRUE(client);
  const auto view = (*client)->partition(kPartition);
  ASSERT_FALSE(view);
  EXPECT_EQ(view.error().code, Errc::kUnavailable);
}

TEST(ControllerClientTest, WhatIsMissingIsSaidBeforeAnybodyIsAsked) {
  EXPECT_EQ(Client::make({.url = "", .org = "acme"}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(Client::make({.url = "http://127.0.0.1:1", .org = ""}).error().code,
            Errc::kInvalidArgument);
}

TEST(SharingGroupsTest, OnlyReadyGpusOfOneDomainShare) {
  const auto gpu = [](unsigned instance, unsigned device, Status status, unsigned domain) {
    InterfaceView view;
    view.instance = InstanceId{uuid_of(instance)};
    view.device_instance = device;
    view.status = status;
    if (domain != 0) view.domain = DomainId{uuid_of(domain)};
    return view;
  };
  const auto groups =
      sharing_groups({gpu(1, 0, Status::kReady, 70), gpu(3, 1, Status::kReady, 71),
                      gpu(2, 0, Status::kReady, 71), gpu(2, 1, Status::kPending, 71),
                      gpu(4, 0, Status::kDeleting, 70), gpu(5, 0, Status::kReady, 0)});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].domain, DomainId{uuid_of(71)});
  ASSERT_EQ(groups[0].interfaces.size(), 2U);
  EXPECT_EQ(groups[0].interfaces[0].instance, InstanceId{uuid_of(2)});
  EXPECT_EQ(groups[1].interfaces.size(), 1U);
}

}  // namespace
}  // namespace imex::partition::client
