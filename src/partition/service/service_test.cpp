// The operations as the API documents them: codes, bodies, who may see what.
#include "partition/service/service.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/random.hpp"
#include "testing/service_kit.hpp"

namespace imex::partition::testing {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string unknown_id() { return os::random_uuid().to_string(); }

// ---- Logical partitions ------------------------------------------------------------------------

TEST_F(ServiceTest, APartitionIsMadeReadAndListed) {
  const std::string id = make_partition("train");
  const Reply got = call("get-nvlink-logical-partition", {id}, "",
                         {{"includeStats", "true"}, {"includeRelation", "Site"}});
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body["name"], "train");
  EXPECT_EQ(got.body["status"], "Ready");
  EXPECT_EQ(got.body["description"], nullptr);
  EXPECT_EQ(got.body["tenantId"], world_.tenant.id.to_string());
  EXPECT_EQ(got.body["nvLinkLogicalPartitionStats"]["totalGpus"], 0);
  EXPECT_EQ(got.body["site"]["name"], "here");
  EXPECT_EQ(got.body["statusHistory"].size(), 1U);
  EXPECT_FALSE(got.body.contains("vpcs"));
  make_partition("serve");
  const Reply list = call("get-all-nvlink-logical-partition", {}, "",
                          {{"pageSize", "1"}, {"orderBy", "NAME_ASC"}});
  ASSERT_EQ(list.body.size(), 1U);
  EXPECT_EQ(list.body[0]["name"], "serve");
  EXPECT_EQ(list.pagination,
            (json{{"pageNumber", 1}, {"pageSize", 1}, {"total", 2}, {"orderBy", "NAME_ASC"}}));
}

TEST_F(ServiceTest, BadPartitionsAreRefusedWithTheDocumentedCode) {
  const std::string site = world_.site.id.to_string();
  const std::string taken = make_partition("taken");
  struct Case {
    std::string body;
    int status;
    std::string field;  ///< key of data, if any
  };
  for (const Case& c : std::vector<Case>{
           {"", 400, ""},
           {"[]", 400, ""},
           {"{\"name\":", 400, ""},
           {R"({"name":"ab","name":"cd","siteId":")" + site + "\"}", 400, ""},
           {R"({"name":"ab","Name":"cd","siteId":")" + site + "\"}", 400, "name"},
           {R"({"siteId":")" + site + "\"}", 400, "name"},
           {R"({"name":"a","siteId":")" + site + "\"}", 400, "name"},
           {R"({"name":" ab","siteId":")" + site + "\"}", 400, "name"},
           {R"({"name":7,"siteId":")" + site + "\"}", 400, "name"},
           {R"({"name":"a\u0000b","siteId":")" + site + "\"}", 400, "name"},
           {R"({"name":")" + std::string(257, 'x') + R"(","siteId":")" + site + "\"}", 400, "name"},
           {R"({"name":"ab"})", 400, "siteId"},
           {R"({"name":"ab","siteId":"nowhere"})", 400, "siteId"},
           {R"({"name":"ab","siteId":")" + unknown_id() + "\"}", 404, ""},
           {R"({"name":"ab","multicastGroups":6,"siteId":")" + site + "\"}", 400,
            "multicastGroups"},
           {R"({"name":"ab","resiliencyMode":"Best","siteId":")" + site + "\"}", 400,
            "resiliencyMode"},
           {R"({"name":"taken","siteId":")" + site + "\"}", 409, "id"}}) {
    const Reply reply = call("create-nvlink-logical-partition", {}, c.body);
    EXPECT_EQ(reply.status, c.status) << c.body << ": " << reply.body;
    if (!c.field.empty()) {
      EXPECT_TRUE(reply.body["data"].contains(c.field)) << reply.body;
    }
    if (c.status == 409) {
      EXPECT_EQ(reply.body["data"]["id"], taken);
    }
  }
  const json good{{"name", "ab"}, {"siteId", site}};
  EXPECT_EQ(call(umbrella_, "create-nvlink-logical-partition", {}, good.dump()).status, 403)
      << "no allocation";
  Caller stranger = acme_;
  stranger.org = "nobody";
  EXPECT_EQ(call(stranger, "create-nvlink-logical-partition", {}, good.dump()).status, 400)
      << "no tenant";
  EXPECT_EQ(call(provider_, "update-site", {site}, R"({"capabilities":{"nvLinkPartition":false}})")
                .status,
            200);
  EXPECT_EQ(call("create-nvlink-logical-partition", {}, good.dump()).status, 400);
}

TEST_F(ServiceTest, OfManyCreatesWithOneNameOneWins) {
  const std::string body = json{{"name", "wanted"}, {"siteId", world_.site.id.to_string()}}.dump();
  std::atomic<int> made{0}, refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const Request request{acme_, {}, {}, body};
      const int status = service_->create_partition(request).status;
      if (status == 201) ++made;
      if (status == 409) ++refused;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(refused, 7);
}

TEST_F(ServiceTest, APartitionIsRenamedOnceAndVersioned) {
  const std::string id = make_partition("one");
  make_partition("two");
  EXPECT_EQ(call("update-nvlink-logical-partition", {id}, R"({"name":"two"})").status, 409);
  const Reply same = call("update-nvlink-logical-partition", {id}, R"({"name":"one"})");
  EXPECT_EQ(same.status, 200);
  EXPECT_EQ(same.body["version"], 1);
  const Reply renamed = call("update-nvlink-logical-partition", {id}, R"({"NAME":"three"})");
  EXPECT_EQ(renamed.body["name"], "three");
  EXPECT_EQ(renamed.body["version"], 2);
  EXPECT_EQ(call("update-nvlink-logical-partition", {unknown_id()}, "{}").status, 404);
  EXPECT_EQ(call("update-nvlink-logical-partition", {"seven"}, "{}").status, 400);
}

TEST_F(ServiceTest, APartitionInUseStaysAndAFreeOneGoes) {
  observe(2);
  const std::string id = make_partition("train");
  const std::string vpc = make_vpc("net", id);
  Reply reply = call("delete-nvlink-logical-partition", {id});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body["data"]["vpcIds"], json::array({vpc}));
  const std::string instance = make_instance("one", vpc);
  EXPECT_EQ(call("update-vpc", {vpc}, R"({"nvLinkLogicalPartitionId":""})").status, 403)
      << "an instance uses the default";
  EXPECT_EQ(call("update-instance", {instance}, R"({"nvLinkInterfaces":[]})").status, 200);
  EXPECT_EQ(call("update-vpc", {vpc}, R"({"nvLinkLogicalPartitionId":""})").status, 200);
  EXPECT_EQ(call("update-instance", {instance}, interfaces(id, {0}).dump()).status, 200);
  reply = call("delete-nvlink-logical-partition", {id});
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body["message"].get<std::string>(), HasSubstr("1 instances"));
  EXPECT_EQ(call("delete-instance", {instance}).status, 202);
  EXPECT_EQ(call("delete-nvlink-logical-partition", {id}).status, 400) << "its GPUs are there yet";
  converge();
  reply = call("delete-nvlink-logical-partition", {id});
  EXPECT_EQ(reply.status, 202);
  EXPECT_EQ(reply.body, "Deletion request was accepted");
  EXPECT_EQ(call("get-nvlink-logical-partition", {id}).status, 404);
}

// ---- VPCs --------------------------------------------------------------------------------------

TEST_F(ServiceTest, VpcChecksItsDefault) {
  const std::string site = world_.site.id.to_string();
  const auto post = [&](const json& more) {
    json body{{"name", "net" + unknown_id()}, {"siteId", site}};
    body.merge_patch(more);
    return call("create-vpc", {}, body.dump());
  };
  EXPECT_EQ(post({{"nvLinkLogicalPartitionId", unknown_id()}}).status, 404);
  EXPECT_EQ(post({{"nvLinkLogicalPartitionId", "x"}}).status, 400);
  EXPECT_EQ(post({{"siteId", unknown_id()}}).status, 400);
  EXPECT_EQ(post({{"networkVirtualizationType", "MAGIC"}}).status, 400);
  EXPECT_EQ(post({{"vni", 70'000}}).status, 400);
  LogicalPartition foreign = new_partition(world_, "theirs");
  foreign.tenant = world_.other_tenant.id;
  must(insert(foreign));
  EXPECT_EQ(post({{"nvLinkLogicalPartitionId", foreign.id.to_string()}}).status, 403);
  LogicalPartition failed = new_partition(world_, "failed");
  failed.status = Status::kError;
  must(insert(failed));
  EXPECT_EQ(post({{"nvLinkLogicalPartitionId", failed.id.to_string()}}).status, 403);

  const std::string own_id = unknown_id();
  const Reply made = post({{"id", own_id}, {"labels", {{"team", "a"}}}});
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(made.body["id"], own_id);
  EXPECT_EQ(made.body["networkVirtualizationType"], "ETHERNET_VIRTUALIZER");
  EXPECT_EQ(made.body["labels"]["team"], "a");
  EXPECT_EQ(made.body["infrastructureProviderId"], world_.provider.id.to_string());
  EXPECT_EQ(post({{"id", own_id}}).status, 409);
  EXPECT_EQ(post({{"name", made.body["name"]}}).status, 409);
  EXPECT_EQ(call("delete-vpc", {own_id}).status, 202);
  EXPECT_EQ(call("get-vpc", {own_id}).status, 404);
}

// ---- Instances ---------------------------------------------------------------------------------

TEST_F(ServiceTest, TheVpcDefaultPutsAllGpusIn) {
  observe(1);
  const std::string partition = make_partition("train");
  const std::string vpc = make_vpc("net", partition);
  const Reply made = call("create-instance", {}, instance_body("one", vpc).dump());
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.body["status"], "Pending");
  ASSERT_EQ(made.body["nvLinkInterfaces"].size(), 4U);
  for (int device = 0; device < 4; ++device) {
    const json& interface = made.body["nvLinkInterfaces"][static_cast<std::size_t>(device)];
    EXPECT_EQ(interface["deviceInstance"], device);
    EXPECT_EQ(interface["nvLinkLogicalPartitionId"], partition);
    EXPECT_EQ(interface["nvLinklogicalPartitionId"], partition) << "generation B's spelling";
    EXPECT_EQ(interface["gpuGuid"], nullptr);
    EXPECT_EQ(interface["status"], "Pending");
  }
  converge();
  const Reply ready = call("get-instance", {made.body["id"]});
  EXPECT_EQ(ready.body["status"], "Ready");
  EXPECT_EQ(ready.body["nvLinkInterfaces"][1]["gpuGuid"], "1001");
  EXPECT_EQ(ready.body["nvLinkInterfaces"][1]["nvLinkDomainId"], world_.domain.to_string());
  EXPECT_EQ(call("create-instance", {}, instance_body("two", vpc).dump()).status, 400)
      << "no free machine";
}

TEST_F(ServiceTest, BadInstancesAreRefusedWithTheDocumentedCode) {
  observe(2);
  const std::string partition = make_partition("train");
  const std::string other = make_partition("other");
  const std::string vpc = make_vpc("net");
  const std::string with_default = make_vpc("net2", partition);
  LogicalPartition foreign = new_partition(world_, "theirs");
  foreign.tenant = world_.other_tenant.id;
  must(insert(foreign));
  make_instance("taken", vpc);
  struct Case {
    json more;
    int status;
    std::string field;
  };
  for (const Case& c : std::vector<Case>{
           {{{"name", "taken"}}, 409, "id"},
           {{{"tenantId", unknown_id()}}, 400, "tenantId"},
           {{{"vpcId", unknown_id()}}, 400, "vpcId"},
           {{{"instanceTypeId", nullptr}}, 400, "instanceTypeId"},
           {{{"machineId", machine_of(1).text}}, 400, "instanceTypeId"},
           {{{"instanceTypeId", nullptr}, {"machineId", machine_of(1).text}}, 403, ""},
           {{{"instanceTypeId", unknown_id()}}, 400, "instanceTypeId"},
           {{{"interfaces", json::array()}}, 400, "interfaces"},
           {{{"interfaces", {{{"ipAddress", "10.0.0.1"}}}}}, 400, "interfaces"},
           {{{"ipxeScript", nullptr}}, 400, "operatingSystemId"},
           {{{"labels", {{"", "x"}}}}, 400, "labels"},
           {interfaces(partition, {0, 1, 2, 3, 0}), 400, "nvLinkInterfaces"},
           {interfaces(partition, {4}), 400, "nvLinkInterfaces"},
           {interfaces(partition, {-1}), 400, "nvLinkInterfaces"},
           {interfaces(partition, {1, 1}), 400, "nvLinkInterfaces"},
           {interfaces(unknown_id(), {1}), 400, "nvLinkInterfaces"},
           {interfaces(foreign.id.to_string(), {1}), 400, "nvLinkInterfaces"},
           {{{"nvLinkInterfaces", {{{"deviceInstance", 1}}}}}, 400, "nvLinkInterfaces"},
           {{{"nvLinkInterfaces", "all"}}, 400, "nvLinkInterfaces"}}) {
    const Reply reply = call("create-instance", {}, instance_body("one", vpc, c.more).dump());
    EXPECT_EQ(reply.status, c.status) << c.more << ": " << reply.body;
    if (!c.field.empty() && reply.status == c.status) {
      EXPECT_TRUE(reply.body["data"].contains(c.field)) << c.more << ": " << reply.body;
    }
  }
  EXPECT_EQ(
      call("create-instance", {}, instance_body("one", with_default, interfaces(other, {0})).dump())
          .status,
      400)
      << "the VPC's default must be named";
  EXPECT_EQ(list<Instance>().size(), 1U);
  EXPECT_EQ(find<Machine>(machine_of(1))->status, Status::kReady);
}

TEST_F(ServiceTest, APatchReplacesTheWholeSetAndLeavesEqualGpusAlone) {
  observe(1);
  const std::string train = make_partition("train"), serve = make_partition("serve");
  const std::string id = make_instance("one", make_vpc("net"), interfaces(train, {0, 1, 2, 3}));
  converge();
  const json before = call("get-instance", {id}).body;

  const Reply same = call("update-instance", {id}, interfaces(train, {3, 1, 2, 0}).dump());
  EXPECT_EQ(same.status, 200);
  EXPECT_EQ(same.body["version"], before["version"]) << "the same set is no change";
  EXPECT_EQ(same.body["nvLinkInterfaces"], before["nvLinkInterfaces"]);

  const Reply fewer = call("update-instance", {id}, interfaces(train, {0, 1}).dump());
  EXPECT_EQ(fewer.body["status"], "Configuring");
  std::map<std::string, int> by_status;
  for (const json& row : fewer.body["nvLinkInterfaces"])
    ++by_status[row["status"].get<std::string>()];
  EXPECT_EQ(by_status, (std::map<std::string, int>{{"Ready", 2}, {"Deleting", 2}}));
  converge();
  EXPECT_EQ(call("get-instance", {id}).body["nvLinkInterfaces"].size(), 2U);

  json moved = interfaces(train, {0});
  moved["nvLinkInterfaces"].push_back({{"nvLinklogicalPartitionId", serve}, {"deviceInstance", 1}});
  const Reply move = call("update-instance", {id}, moved.dump());
  EXPECT_EQ(move.status, 200) << move.body;
  EXPECT_EQ(move.body["nvLinkInterfaces"].size(), 3U) << "the old row and the new";
  converge();

  EXPECT_EQ(call("update-instance", {id}, R"({"name":"renamed"})").body["nvLinkInterfaces"].size(),
            2U)
      << "absent keeps";
  EXPECT_EQ(call("update-instance", {id}, R"({"nvLinkInterfaces":null})").body["status"], "Ready");
  call("update-instance", {id}, R"({"nvLinkInterfaces":[]})");
  converge();
  EXPECT_TRUE(call("get-instance", {id}).body["nvLinkInterfaces"].empty());
}

TEST_F(ServiceTest, WithAVpcDefaultAListIsRefusedButNoChangeIsNot) {
  observe(1);
  const std::string train = make_partition("train");
  const std::string id = make_instance("one", make_vpc("net", train));
  EXPECT_EQ(call("update-instance", {id}, interfaces(train, {0, 1, 2, 3}).dump()).status, 200);
  EXPECT_EQ(call("update-instance", {id}, interfaces(train, {0}).dump()).status, 400);
  EXPECT_EQ(call("update-instance", {id}, R"({"nvLinkInterfaces":[]})").status, 200);
  EXPECT_EQ(call("update-instance", {id}, interfaces(train, {0}).dump()).status, 200)
      << "it has none now";
}

TEST_F(ServiceTest, AReleasedMachineIsOfferedOnlyWhenItsGpusHaveLeft) {
  observe(1);
  const std::string vpc = make_vpc("net", make_partition("train"));
  const std::string id = make_instance("one", vpc);
  converge();
  EXPECT_EQ(call("delete-instance", {id}).status, 202);
  EXPECT_EQ(call("delete-instance", {id}).status, 202) << "a second time";
  EXPECT_EQ(call("get-instance", {id}).body["status"], "Terminating");
  EXPECT_EQ(call("update-instance", {id}, R"({"name":"late"})").status, 409);
  EXPECT_EQ(call("create-instance", {}, instance_body("two", vpc).dump()).status, 400);
  observe(1);
  EXPECT_EQ(call("create-instance", {}, instance_body("two", vpc).dump()).status, 400)
      << "an observation alone does not free it";
  converge();
  EXPECT_EQ(call("get-instance", {id}).status, 404);
  EXPECT_EQ(call("create-instance", {}, instance_body("two", vpc).dump()).status, 201);
}

TEST_F(ServiceTest, ABatchIsAllOrNothing) {
  observe(4);
  const std::string vpc = make_vpc("net", make_partition("train"));
  json body = instance_body("x", vpc, {{"name", nullptr}, {"namePrefix", "job"}, {"count", 3}});
  const Reply made = call("batch-create-instances", {}, body.dump());
  ASSERT_EQ(made.status, 201) << made.body;
  ASSERT_EQ(made.body.size(), 3U);
  std::set<std::string> machines;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_THAT(made.body[i]["name"].get<std::string>(),
                ::testing::MatchesRegex("job-[0-9a-f]{6}-" + std::to_string(i + 1)));
    EXPECT_EQ(made.body[i]["nvLinkInterfaces"].size(), 4U);
    machines.insert(made.body[i]["machineId"].get<std::string>());
  }
  EXPECT_EQ(machines.size(), 3U);
  body["count"] = 2;
  const Reply full = call("batch-create-instances", {}, body.dump());
  EXPECT_EQ(full.status, 409);
  EXPECT_THAT(full.body["message"].get<std::string>(), HasSubstr("1 in domain"));
  EXPECT_EQ(list<Instance>().size(), 3U);
  body["count"] = 17;
  EXPECT_EQ(call("batch-create-instances", {}, body.dump()).status, 403) << "quota";
  body["count"] = 1;
  EXPECT_EQ(call("batch-create-instances", {}, body.dump()).status, 400);
}

TEST_F(ServiceTest, ADryRunSaysWhatWouldFollowAndLeavesNothing) {
  observe(1);
  const std::string vpc = make_vpc("net", make_partition("train"));
  const Reply dry =
      call("create-instance", {}, instance_body("one", vpc).dump(), {{"dryRun", "true"}});
  ASSERT_EQ(dry.status, 200) << dry.body;
  EXPECT_EQ(dry.body["status"], 201);
  EXPECT_EQ(dry.body["object"]["name"], "one");
  ASSERT_EQ(dry.body["operations"].size(), 1U);
  EXPECT_EQ(dry.body["operations"][0]["kind"], "CreatePartition");
  EXPECT_EQ(dry.body["operations"][0]["gpuGuids"], json::array({"1000", "1001", "1002", "1003"}));
  EXPECT_TRUE(list<Instance>().empty());
  EXPECT_EQ(call("create-vpc", {}, "{}", {{"dryRun", "true"}}).status, 400);
  EXPECT_EQ(call("create-vpc", {}, "{}", {{"dryRun", "perhaps"}}).status, 400);
}

TEST_F(ServiceTest, ReservedTraysAreKeptForTheirPartition) {
  observe(2);
  const std::string mine = make_partition("mine"), yours = make_partition("yours");
  const std::string vpc = make_vpc("net");
  const auto reserve = [&](int trays) {
    return call("create-nvlink-reservation", {},
                json{{"nvLinkLogicalPartitionId", mine},
                     {"nvLinkDomainId", world_.domain.to_string()},
                     {"instanceTypeId", world_.type.id.to_string()},
                     {"trays", trays},
                     {"expires", "2199-01-01T00:00:00Z"}}
                    .dump());
  };
  EXPECT_EQ(reserve(3).status, 409);
  EXPECT_EQ(reserve(19).status, 403);
  const Reply reserved = reserve(1);
  ASSERT_EQ(reserved.status, 201) << reserved.body;
  make_instance("one", vpc, interfaces(yours, {0}));
  EXPECT_EQ(
      call("create-instance", {}, instance_body("two", vpc, interfaces(yours, {0})).dump()).status,
      400)
      << "the last tray is kept";
  make_instance("three", vpc, interfaces(mine, {0}));
  EXPECT_EQ(call("delete-nvlink-reservation", {reserved.body["id"]}).status, 202);
}

TEST_F(ServiceTest, SharingGroupsTellWhoCanShareMemory) {
  observe(1);
  const std::string partition = make_partition("train");
  make_instance("one", make_vpc("net", partition));
  const Reply before = call("get-all-sharing-group", {partition});
  EXPECT_EQ(before.body["notSharing"]["gpus"], 4);
  EXPECT_EQ(before.body["allShare"], false);
  converge();
  const Reply after = call("get-all-sharing-group", {partition});
  EXPECT_EQ(after.body["allShare"], true);
  ASSERT_EQ(after.body["groups"].size(), 1U);
  EXPECT_EQ(after.body["groups"][0]["gpus"], 4);
}

// ---- Who may see what --------------------------------------------------------------------------

/// Everything of acme's there is, by the path element that its id stands in.
class AuthorisationTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    observe(2);
    partition_ = make_partition("secret-partition");
    vpc_ = make_vpc("secret-vpc", partition_);
    instance_ = make_instance("secret-instance", vpc_);
    converge();
    const Reply reserved = call("create-nvlink-reservation", {},
                                json{{"nvLinkLogicalPartitionId", partition_},
                                     {"nvLinkDomainId", world_.domain.to_string()},
                                     {"instanceTypeId", world_.type.id.to_string()},
                                     {"trays", 1},
                                     {"expires", "2199-01-01T00:00:00Z"}}
                                    .dump());
    reservation_ = reserved.body.value("id", "");
    must(store().begin_operation(term(), {.idempotency_key = "k",
                                          .domain = world_.domain,
                                          .partition = LogicalPartitionId{*Uuid::parse(partition_)},
                                          .gpu_uids = {1000}}));
    operation_ = list<OperationRecord>()[0].id.to_string();
    must(store().finish_operation(term(), "k", OperationState::kCompleted, 5, "ok"));
  }

  std::vector<std::string> path_of(const Operation& operation) const {
    const std::string_view path = operation.path;
    std::vector<std::string> values;
    if (path.find('{') == std::string_view::npos) return values;
    if (path.starts_with("/nvlink-logical-partition")) values = {partition_};
    if (path.starts_with("/vpc")) values = {vpc_};
    if (path.starts_with("/instance/")) values = {instance_};
    if (path.starts_with("/instance/type"))
      values = {world_.type.id.to_string(), machine_of(0).text};
    if (path.starts_with("/site")) values = {world_.site.id.to_string()};
    if (path.starts_with("/machine")) values = {machine_of(0).text};
    if (path.starts_with("/allocation")) values = {world_.allocation.id.to_string()};
    if (path.starts_with("/nvlink-endpoint")) values = {world_.endpoint.id.to_string()};
    if (path.starts_with("/nvlink-domain")) values = {world_.domain.to_string()};
    if (path.starts_with("/nvlink-operation")) values = {operation_};
    if (path.starts_with("/nvlink-reservation")) values = {reservation_};
    EXPECT_FALSE(values.empty()) << "a path that this test does not know: " << path;
    return values;
  }
  void expect_nothing_of_acme(const Reply& reply, const Operation& operation) {
    const std::string text = reply.body.dump();
    const std::vector<std::string> named = path_of(operation);  // an answer may repeat these
    for (const std::string& word :
         {std::string("secret-"), vpc_, instance_, world_.tenant.id.to_string()}) {
      if (std::find(named.begin(), named.end(), word) != named.end()) continue;
      EXPECT_THAT(text, Not(HasSubstr(word))) << operation.name;
    }
  }

  std::string partition_, vpc_, instance_, reservation_, operation_;
};

TEST_F(AuthorisationTest, EveryOperationIsClosedToAForeignTenant) {
  const std::size_t before = audit().size();
  for (const Operation& operation : Service::operations()) {
    const bool names_an_object = operation.path.find('{') != std::string_view::npos;
    const Reply reply = call(umbrella_, operation.name, path_of(operation), "{}");
    if (names_an_object) {
      EXPECT_THAT(reply.status, AnyOf(400, 403, 404)) << operation.name << ": " << reply.body;
    }
    expect_nothing_of_acme(reply, operation);
  }
  EXPECT_EQ(audit().size(), before) << "nobody changed anything";
}

TEST_F(AuthorisationTest, AForeignTenantCannotReachByFilterOrBody) {
  struct Case {
    std::string operation;
    Parameters query;
  };
  for (const Case& c : std::vector<Case>{
           {"get-all-nvlink-interface", {{"instanceId", instance_}}},
           {"get-all-nvlink-interface", {{"nvLinkLogicalPartitionId", partition_}}},
           {"get-all-nvlink-interface", {{"nvLinkDomainId", world_.domain.to_string()}}},
           {"get-all-vpc", {{"nvLinkLogicalPartitionId", partition_}}},
           {"get-all-nvlink-logical-partition", {{"siteId", world_.site.id.to_string()}}},
           {"get-all-nvlink-physical-partition", {{"nvLinkLogicalPartitionId", partition_}}},
           {"get-all-nvlink-operation", {{"nvLinkLogicalPartitionId", partition_}}}}) {
    const Reply reply = call(umbrella_, c.operation, {}, "", c.query);
    if (reply.status == 200) {
      EXPECT_TRUE(reply.body.empty()) << c.operation << reply.body;
    } else {
      EXPECT_THAT(reply.status, AnyOf(400, 403, 404)) << c.operation;
    }
  }
  json body = instance_body("mine", vpc_);
  body["tenantId"] = world_.other_tenant.id.to_string();
  EXPECT_EQ(call(umbrella_, "create-instance", {}, body.dump()).status, 400);
}

TEST_F(AuthorisationTest, WithoutARoleThereIsNothing) {
  Caller nobody = acme_;
  nobody.roles = {};
  for (const Operation& operation : Service::operations()) {
    if (operation.name == "get-metadata" || operation.name == "get-current-user") continue;
    const Reply reply = call(nobody, operation.name, path_of(operation), "{}");
    EXPECT_EQ(reply.status, 403) << operation.name << ": " << reply.body;
    expect_nothing_of_acme(reply, operation);
  }
}

TEST_F(AuthorisationTest, AViewerWritesNothing) {
  Caller viewer = provider_;
  viewer.roles = {.provider_viewer = true};
  for (const Operation& operation : Service::operations()) {
    if (operation.method == "GET") continue;
    const Reply reply = call(viewer, operation.name, path_of(operation), "{}");
    EXPECT_EQ(reply.status, 403) << operation.name << ": " << reply.body;
  }
}

TEST_F(AuthorisationTest, AnotherProviderSeesNeitherFabricNorLog) {
  Caller other = provider_;
  other.org = "intel";
  EXPECT_EQ(call(other, "get-current-infrastructure-provider").status, 200);
  for (const char* list : {"get-all-nvlink-endpoint", "get-all-nvlink-domain", "get-all-machine",
                           "get-all-nvlink-physical-partition", "get-all-nvlink-operation",
                           "get-all-site", "get-all-allocation"}) {
    const Reply reply = call(other, list);
    EXPECT_EQ(reply.status, 200) << list << reply.body;
    EXPECT_TRUE(reply.body.empty()) << list << reply.body;
  }
  EXPECT_EQ(call(other, "get-all-audit-record").status, 403);
  EXPECT_EQ(call(other, "get-nvlink-domain", {world_.domain.to_string()}).status, 404);
  EXPECT_EQ(call(other, "get-nvlink-endpoint", {world_.endpoint.id.to_string()}).status, 403);
}

TEST_F(AuthorisationTest, TheProviderSeesTheFabric) {
  const Reply domain = call(provider_, "get-nvlink-domain", {world_.domain.to_string()});
  ASSERT_EQ(domain.status, 200);
  EXPECT_EQ(domain.body["trays"].size(), 2U);
  EXPECT_EQ(domain.body["trays"][0]["gpus"][0]["gpuGuid"], "1000");
  EXPECT_EQ(call(provider_, "get-all-nvlink-physical-partition").body.size(), 1U);
  const Reply health = call(provider_, "get-nvlink-health");
  EXPECT_EQ(health.body["healthy"], false) << "the endpoint was never contacted";
  EXPECT_THAT(health.body["firstBroken"]["name"].get<std::string>(), HasSubstr("endpoint"));
  EXPECT_GT(call(provider_, "get-all-audit-record").body.size(), 5U);
}

TEST_F(AuthorisationTest, CredentialsOfEndpointsNeverComeBack) {
  const Reply made = call(provider_, "create-nvlink-endpoint", {},
                          json{{"url", "https://fm:9370"},
                               {"siteId", world_.site.id.to_string()},
                               {"credentials", {{"user", "u"}, {"password", "hunter2"}}}}
                              .dump());
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.body["hasCredentials"], true);
  EXPECT_THAT(made.body.dump(), Not(HasSubstr("hunter2")));
  const std::string id = made.body["id"];
  for (const Reply& reply :
       {call(provider_, "get-nvlink-endpoint", {id}), call(provider_, "get-all-nvlink-endpoint"),
        call(provider_, "get-all-audit-record", {}, "", {{"pageSize", "100"}})})
    EXPECT_THAT(reply.body.dump(), Not(HasSubstr("hunter2")));
  EXPECT_EQ(must(store().credentials({*Uuid::parse(id)})).password.reveal(), "hunter2");
  EXPECT_EQ(call(provider_, "create-nvlink-endpoint", {},
                 json{{"url", "https://fm:9370"}, {"siteId", world_.site.id.to_string()}}.dump())
                .status,
            409);
  EXPECT_EQ(call(provider_, "delete-nvlink-endpoint", {id}).status, 202);
}

// ---- Queries and accounts ----------------------------------------------------------------------

TEST_F(ServiceTest, BadQueriesAreRefused) {
  for (const Parameters& query : std::vector<Parameters>{{{"pageNumber", "0"}},
                                                         {{"pageNumber", "x"}},
                                                         {{"pageSize", "101"}},
                                                         {{"pageSize", "-1"}},
                                                         {{"pageSize", ""}},
                                                         {{"orderBy", "NAME"}},
                                                         {{"orderBy", "SECRET_ASC"}},
                                                         {{"status", "ready"}},
                                                         {{"status", "Terminated"}},
                                                         {{"siteId", "x"}},
                                                         {{"includeVpcs", "maybe"}},
                                                         {{"includeRelation", "Machine"}},
                                                         {{"query", std::string("a\0b", 3)}}})
    EXPECT_EQ(call("get-all-nvlink-logical-partition", {}, "", query).status, 400)
        << query[0].first << '=' << query[0].second;
}

TEST_F(ServiceTest, AccountsAreMadeOnFirstUse) {
  Caller fresh = acme_;
  fresh.org = "newcomer";
  const Reply first = call(fresh, "get-current-tenant");
  ASSERT_EQ(first.status, 200);
  EXPECT_EQ(first.body["org"], "newcomer");
  EXPECT_EQ(call(fresh, "get-current-tenant").body["id"], first.body["id"]);
  EXPECT_EQ(call(fresh, "get-current-infrastructure-provider").status, 403);
  EXPECT_EQ(call(fresh, "get-metadata").body["version"], "0.3.0");
  EXPECT_EQ(call(fresh, "get-current-tenant-stats").body["instance"]["total"], 0);
}

TEST_F(ServiceTest, AProviderSetsUpASiteFromNothing) {
  Caller owner = provider_;
  owner.org = "fresh";
  ASSERT_EQ(call(owner, "get-current-infrastructure-provider").status, 200);
  const Reply site = call(owner, "create-site", {}, R"({"name":"lab"})");
  ASSERT_EQ(site.status, 201) << site.body;
  EXPECT_EQ(site.body["capabilities"]["nvLinkPartition"], true);
  const Reply type = call(
      owner, "create-instance-type", {},
      json{{"name", "gb200"},
           {"siteId", site.body["id"]},
           {"machineCapabilities",
            {{{"type", "GPU"}, {"name", "NVIDIA GB200"}, {"count", 4}, {"deviceType", "NVLink"}}}}}
          .dump());
  ASSERT_EQ(type.status, 201) << type.body;
  const Reply allocation = call(owner, "create-allocation", {},
                                json{{"name", "all"},
                                     {"tenantId", world_.tenant.id.to_string()},
                                     {"siteId", site.body["id"]},
                                     {"allocationConstraints",
                                      {{{"resourceType", "InstanceType"},
                                        {"resourceTypeId", type.body["id"]},
                                        {"constraintType", "Reserved"},
                                        {"constraintValue", 4}}}}}
                                    .dump());
  ASSERT_EQ(allocation.status, 201) << allocation.body;
  EXPECT_EQ(call("get-site", {site.body["id"]}).status, 200) << "the tenant sees it now";
  EXPECT_EQ(call(owner, "delete-site", {site.body["id"]}).status, 412);
}

}  // namespace
}  // namespace imex::partition::testing
