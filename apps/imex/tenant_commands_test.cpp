// The tenant's commands inside the test's process, against a controller that answers as scripted:
// what they ask, what they print, and which status they end with.

#include "tenant_commands.hpp"

#include <atomic>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "captured_run.hpp"
#include "os/file.hpp"
#include "partition/client/testing/scripted_controller.hpp"

namespace imex::cli {
namespace {

using net::http::Method;
using net::http::Response;
using partition::client::instance_json;
using partition::client::interface_json;
using partition::client::list_of;
using partition::client::partition_json;
using partition::client::ScriptedController;
using partition::client::uuid_text;
using testing::HasSubstr;
using testing::Not;
using Asked = ScriptedController::Asked;

constexpr unsigned kTraining = 1, kInference = 2, kNode = 10, kVpc = 902, kSite = 900;

std::string domain(unsigned number) { return '"' + uuid_text(number) + '"'; }

/// A tenant with two partitions and one instance on a tray: three GPUs in 'training'.
Response small_tenant(const Asked& asked) {
  const auto path = asked.target.substr(0, asked.target.find('?'));
  const std::string node = instance_json(
      kNode, "node-1", "Ready",
      interface_json(20, kNode, kTraining, 0, "Ready", domain(70), "\"9007199254740993\"") + "," +
          interface_json(21, kNode, kTraining, 1, "Ready", domain(70), "\"5\"") + "," +
          interface_json(22, kNode, kTraining, 2, "Pending"));
  const std::string vpc = fmt::format(
      R"({{"id":"{}","name":"net-a","siteId":"{}","status":"Ready","nvLinkLogicalPartitionId":"{}"}})",
      uuid_text(kVpc), uuid_text(kSite), uuid_text(kTraining));
  if (asked.method == Method::kDelete) return Response::text(202, "accepted");
  if (asked.method == Method::kPost && asked.target.find("dryRun=true") != std::string::npos) {
    return Response::json(
        200,
        R"({"dryRun":true,"status":201,"object":null,"operations":[{"kind":"create_partition",)"
        R"("nvLinkDomainId":)" +
            domain(70) + R"(,"gpuGuids":["7","9007199254740993"]}]})");
  }
  if (path == "/tenant/current") return Response::json(200, R"({"id":")" + uuid_text(901) + "\"}");
  if (path == "/site") {
    return list_of(R"({"id":")" + uuid_text(kSite) + R"(","name":"here","status":"Registered"})",
                   1);
  }
  if (path == "/instance/type") {
    return list_of(R"({"id":")" + uuid_text(903) + R"(","name":"gb200","siteId":")" +
                       uuid_text(kSite) +
                       R"(","machineCapabilities":[{"type":"CPU","count":2},)"
                       R"({"type":"GPU","deviceType":"NVLink","count":4}]})",
                   1);
  }
  if (path == "/nvlink-logical-partition" && asked.method == Method::kGet) {
    return list_of(
        partition_json(kTraining, "training") + "," + partition_json(kInference, "inference"), 2);
  }
  if (path == "/nvlink-interface") {
    return list_of(interface_json(20, kNode, kTraining, 0, "Ready", domain(70), "\"5\"") + "," +
                       interface_json(30, 11, kTraining, 0, "Ready", domain(71), "\"6\"") + "," +
                       interface_json(22, kNode, kTraining, 2, "Pending"),
                   3);
  }
  if (path == "/vpc") return list_of(vpc, 1);
  if (path.starts_with("/vpc/")) return Response::json(200, vpc);
  if (path == "/instance" && asked.method == Method::kGet) return list_of(node, 1);
  if (path.starts_with("/instance"))
    return Response::json(asked.method == Method::kPost ? 201 : 200, node);
  return Response::json(asked.method == Method::kPost ? 201 : 200,
                        partition_json(kTraining, "training"));
}

CapturedRun run_against(const ScriptedController& controller, std::vector<std::string> words) {
  for (const std::string& word :
       {std::string("--controller"), controller.url(), std::string("--org"), std::string("acme"),
        std::string("--timeout"), std::string("20s")})
    words.push_back(word);
  return run_captured(std::move(words));
}

/// The body of the only request with this method.
Json body_sent(const ScriptedController& controller, Method method) {
  Json body;
  for (const Asked& asked : controller.asked()) {
    if (asked.method == method) body = Json::parse(asked.body);
  }
  return body;
}

TEST(TenantCommandsTest, PartitionsAreListedForPeopleAndForPrograms) {
  const ScriptedController controller(small_tenant);
  const auto table = run_against(controller, {"partition", "list"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("NAME       STATUS  GPUS  INSTANCES"));
  EXPECT_THAT(table.out, HasSubstr("training   Ready      4          1"));
  const auto json = run_against(controller, {"partition", "list", "--format", "json"});
  const Json list = Json::parse(json.out)["partitions"];
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["name"], "training");
  EXPECT_EQ(list[0]["gpus"], 4);
  EXPECT_EQ(list[0]["site_id"], uuid_text(kSite));
}

TEST(TenantCommandsTest, ShowTellsWhichGpusShareMemory) {
  const ScriptedController controller(small_tenant);
  const auto table = run_against(controller, {"partition", "show", "training"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("2: GPUs of different groups share no memory"));
  const auto json = run_against(controller, {"partition", "show", "training", "--format", "json"});
  const Json shown = Json::parse(json.out);
  ASSERT_EQ(shown["sharing_groups"].size(), 2U);
  EXPECT_EQ(shown["sharing_groups"][0]["domain_uuid"], uuid_text(70));
  EXPECT_EQ(shown["interfaces"].size(), 3U);
}

TEST(TenantCommandsTest, UidsStayExactInJson) {
  const ScriptedController controller(small_tenant);
  const auto json = run_against(controller, {"instance", "show", "node-1", "--format", "json"});
  EXPECT_EQ(Json::parse(json.out)["interfaces"][0]["gpu_uid"], "9007199254740993");
}

TEST(TenantCommandsTest, AnInstanceIsMadeInThePartitionWithAllGpusOfItsType) {
  const ScriptedController controller(small_tenant);
  const auto made = run_against(controller, {"instance", "create", "--partition", "training"});
  EXPECT_EQ(made.status, 0) << made.err;
  const Json body = body_sent(controller, Method::kPost);
  EXPECT_EQ(body["nvLinkInterfaces"].size(), 4U);
  EXPECT_EQ(body["nvLinkInterfaces"][3]["nvLinkLogicalPartitionId"], uuid_text(kTraining));
  EXPECT_EQ(body["vpcId"], uuid_text(kVpc));
  EXPECT_EQ(body["tenantId"], uuid_text(901));
  EXPECT_EQ(body["instanceTypeId"], uuid_text(903));
  EXPECT_THAT(body["name"].get<std::string>(), HasSubstr("instance-"));
}

TEST(TenantCommandsTest, MovingOneGpuSendsTheOthersAsTheyWere) {
  const ScriptedController controller(small_tenant);
  const auto moved =
      run_against(controller, {"instance", "update", "node-1", "--gpu", "1=inference,2=none"});
  EXPECT_EQ(moved.status, 0) << moved.err;
  const Json sent = body_sent(controller, Method::kPatch)["nvLinkInterfaces"];
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0]["deviceInstance"], 0);
  EXPECT_EQ(sent[0]["nvLinkLogicalPartitionId"], uuid_text(kTraining));
  EXPECT_EQ(sent[1]["deviceInstance"], 1);
  EXPECT_EQ(sent[1]["nvLinkLogicalPartitionId"], uuid_text(kInference));
}

TEST(TenantCommandsTest, TakingAllGpusOutSendsTheEmptySet) {
  const ScriptedController controller(small_tenant);
  EXPECT_EQ(run_against(controller, {"instance", "update", "node-1", "--gpus", "0"}).status, 0);
  EXPECT_EQ(body_sent(controller, Method::kPatch)["nvLinkInterfaces"], Json::array());
}

TEST(TenantCommandsTest, TheFirstInstanceOfATenantGetsAVpc) {
  const ScriptedController controller([](const Asked& asked) {
    if (asked.target.starts_with("/vpc?")) return list_of("", 0);
    if (asked.target == "/vpc") {
      return Response::json(201, R"({"id":")" + uuid_text(77) + R"(","name":"default","siteId":")" +
                                     uuid_text(kSite) + R"(","status":"Ready"})");
    }
    return small_tenant(asked);
  });
  const auto made = run_against(controller, {"instance", "create", "n"});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("made VPC 'default'"));
  EXPECT_EQ(body_sent(controller, Method::kPost)["vpcId"], uuid_text(77));
}

TEST(TenantCommandsTest, ADryRunPrintsTheOperationsAndWritesNothing) {
  const ScriptedController controller(small_tenant);
  const auto planned = run_against(controller, {"instance", "create", "n", "--gpus", "2",
                                                "--partition", "training", "--dry-run"});
  EXPECT_EQ(planned.status, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("create_partition"));
  EXPECT_THAT(planned.out, HasSubstr("7,9007199254740993"));
  for (const Asked& asked : controller.asked()) {
    EXPECT_TRUE(asked.method == Method::kGet || asked.target.ends_with("dryRun=true"))
        << asked.target;
  }
}

TEST(TenantCommandsTest, DeletingWaitsUntilItIsGone) {
  std::atomic<int> looks = 0;
  const ScriptedController controller([&](const Asked& asked) {
    if (asked.method == Method::kGet && asked.target.starts_with("/instance/" + uuid_text(kNode)) &&
        ++looks > 2)
      return Response::json(404, "{}");
    return small_tenant(asked);
  });
  const auto gone =
      run_against(controller, {"instance", "delete", "node-1", "--wait", "--format", "json"});
  EXPECT_EQ(gone.status, 0) << gone.err;
  EXPECT_EQ(Json::parse(gone.out)["state"], "gone");
  EXPECT_EQ(looks, 3);
}

TEST(TenantCommandsTest, AWaitThatIsNotMetFailsAndSaysWhatWasSeen) {
  const ScriptedController controller(small_tenant);
  const auto waited =
      run_against(controller, {"instance", "update", "node-1", "--name", "n", "--wait",
                               "--wait-timeout", "20ms", "--format", "json"});
  EXPECT_EQ(waited.status, 1);
  const Json error = Json::parse(waited.out)["error"];
  EXPECT_EQ(error["code"], "deadline_exceeded");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("2 of 3 GPUs in place"));
}

TEST(TenantCommandsTest, TheTokenIsReadFromItsFileAndNeverPrinted) {
  const auto directory = os::make_temporary_directory("token");
  ASSERT_TRUE(directory);
  std::ofstream(*directory + "/token") << "s3cret\n";
  const ScriptedController controller([](const Asked&) { return Response::json(401, "{}"); });
  const auto listed =
      run_against(controller, {"vpc", "list", "--token-file", *directory + "/token"});
  EXPECT_EQ(listed.status, 1);
  EXPECT_EQ(controller.asked()[0].authorization, "Bearer s3cret");
  EXPECT_THAT(listed.err, HasSubstr("--token-file"));
  EXPECT_THAT(listed.err + listed.out, Not(HasSubstr("s3cret")));
  std::ofstream(*directory + "/token") << "a\nX-Other: b\n";
  EXPECT_EQ(run_against(controller, {"vpc", "list", "--token-file", *directory + "/token"}).status,
            2);
  EXPECT_TRUE(os::remove_tree(*directory));
}

TEST(TenantCommandsTest, VpcsShowTheirDefaultByName) {
  const ScriptedController controller(small_tenant);
  EXPECT_THAT(run_against(controller, {"vpc", "list"}).out, HasSubstr("training"));
  EXPECT_EQ(run_against(controller, {"vpc", "update", "net-a", "--no-default-partition"}).status,
            0);
  EXPECT_EQ(body_sent(controller, Method::kPatch)["nvLinkLogicalPartitionId"], "");
  EXPECT_EQ(run_against(controller, {"vpc", "update", "net-a", "--no-default-partition",
                                     "--default-partition", "training"})
                .status,
            2);
}

TEST(TenantCommandsTest, HelpOfEachHasAnExample) {
  for (const std::string noun : {"partition", "vpc", "instance"}) {
    for (const std::string verb : {"list", "show", "create", "update", "delete"}) {
      const auto help = run_captured({noun, verb, "--help"});
      EXPECT_EQ(help.status, 0);
      EXPECT_THAT(help.out, HasSubstr("Example")) << noun << ' ' << verb;
    }
  }
}

}  // namespace
}  // namespace imex::cli
