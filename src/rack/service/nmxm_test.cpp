// The manager without its HTTP server: nmx-m.md, section 8 by number, and each of its faults.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "nmxm_manager.hpp"

namespace imex::rack {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

// base64 of "rw-user:rw-password" and "ro-user:ro-password"
constexpr const char* kWriter = "Basic cnctdXNlcjpydy1wYXNzd29yZA==";
constexpr const char* kReader = "Basic cm8tdXNlcjpyby1wYXNzd29yZA==";

class RackManager : public testing::Test {
 protected:
  RackManager() { begin({}); }

  void begin(NmxmOptions options,
             std::vector<std::string> switches = {"default-partition=absent"}) {
    manager.reset();
    hosts.clear();
    for (unsigned i = 0; i < 2; ++i) {
      DomainOptions domain{.name = "rack-" + std::to_string(i),
                           .index = i,
                           .seed = 1,
                           .topology = *find_topology("nvl72"),
                           .personality = {}};
      for (const std::string& setting : switches)
        EXPECT_TRUE(set_personality(domain.personality, setting));
      hosts.push_back(std::make_unique<DomainHost>(std::move(domain), HostFiles{}, log, [] {}));
    }
    std::vector<NmxmManager::Controller> controllers;
    for (unsigned i = 0; i < 2; ++i)
      controllers.push_back({hosts[i].get(), "10.0.0.1", static_cast<std::uint16_t>(9370 + i)});
    manager = std::make_unique<NmxmManager>(std::move(options), std::move(controllers));
  }
  NmxmResponse ask(const std::string& method, const std::string& path, const std::string& body = {},
                   const char* who = kWriter) {
    NmxmRequest request{.method = method, .path = path, .body = body, .authorization = who};
    if (const auto mark = path.find('?'); mark != std::string::npos) {
      request.path = path.substr(0, mark);
      std::string query = path.substr(mark + 1);
      for (std::size_t at = 0; at < query.size();) {
        const auto end = std::min(query.find('&', at), query.size());
        const auto equals = query.find('=', at);
        request.query.emplace_back(query.substr(at, equals - at),
                                   query.substr(equals + 1, end - equals - 1));
        at = end + 1;
      }
    }
    return manager->answer(request, now, wall);
  }
  json get(const std::string& path) {
    const NmxmResponse response = ask("GET", path);
    EXPECT_EQ(response.status, 200U) << path << ": " << response.body;
    return json::parse(response.body);
  }
  void pass(Nanos time) {
    now = now + time;
    static_cast<void>(manager->pulse(now, wall));
  }
  /// Ids of the GPUs of one slot of the first domain.
  std::vector<std::string> gpus(unsigned slot, unsigned domain = 0) {
    std::vector<std::string> ids;
    const std::string uuid = domain_uuid(domain);
    for (const json& gpu : get("/nmx/v1/gpus?domain=" + uuid)) {
      if (gpu["LocationInfo"]["SlotID"] == slot) ids.push_back(gpu["ID"]);
    }
    return ids;
  }
  std::string domain_uuid(unsigned domain) {
    MutexLock lock(hosts[domain]->mutex);
    return hosts[domain]->domain.uuid().to_string();
  }
  std::string body(const std::string& name, const std::vector<std::string>& members) {
    return json{{"Name", name}, {"Members", members}}.dump();
  }
  std::string change(const std::string& method, const std::string& path,
                     const std::string& text = {}) {
    const NmxmResponse response = ask(method, path, text);
    EXPECT_EQ(response.status, 202U) << response.body;
    const std::string id = json::parse(response.body)["operationId"];
    EXPECT_EQ(response.location, "/nmx/v1/operations/" + id);
    return id;
  }
  json operation(const std::string& id) { return get("/nmx/v1/operations/" + id); }
  /// Creates and waits; the entity id.
  std::string made(const std::string& name, const std::vector<std::string>& members) {
    const std::string id = change("POST", "/nmx/v1/partitions", body(name, members));
    pass(1s);
    EXPECT_EQ(operation(id)["Status"], "completed") << operation(id);
    return operation(id)["Result"]["Data"]["ID"];
  }
  void fault(FaultKind kind, Fault more = {}) {
    more.kind = kind;
    more.starts = now;
    EXPECT_TRUE(manager->inject(more, now));
  }

  static log::Options quiet() {
    log::Options options;
    options.threshold = log::Level::kError;
    options.headline = false;
    return options;
  }
  log::Logger log{quiet()};
  std::vector<std::unique_ptr<DomainHost>> hosts;
  std::unique_ptr<NmxmManager> manager;
  Time now{1'000'000'000};
  std::chrono::system_clock::time_point wall =
      std::chrono::system_clock::time_point(1'700'000'000s);
};

TEST_F(RackManager, InventoryOfAllDomains) {
  EXPECT_EQ(get("/nmx/v1/gpus").size(), 144U);
  EXPECT_EQ(get("/nmx/v1/gpus/count")["total"], 144);
  EXPECT_EQ(get("/nmx/v1/compute-nodes/count")["total"], 36);
  EXPECT_EQ(get("/nmx/v1/switch-nodes?domain=" + domain_uuid(1)).size(), 9U);
  EXPECT_EQ(get("/nmx/v1/switches/count?domain=" + domain_uuid(1))["total"], 18);
  EXPECT_EQ(get("/nmx/v1/ports/count?domain=" + domain_uuid(0))["total"], 2592);
  EXPECT_EQ(get("/nmx/v1/chassis").size(), 2U);
  const json gpu = get("/nmx/v1/gpus?offset=3&limit=1").at(0);
  EXPECT_EQ(gpu["DeviceID"], 4);
  EXPECT_GT(gpu["DeviceUID"].get<std::uint64_t>(), 1ULL << 53U);
  EXPECT_THAT(
      ask("GET", "/nmx/v1/gpus?limit=1").body,
      HasSubstr(std::to_string(get("/nmx/v1/gpus?limit=1")[0]["DeviceUID"].get<std::uint64_t>())));
  EXPECT_EQ(get("/nmx/v1/gpus/" + gpu["ID"].get<std::string>()), gpu);
  EXPECT_FALSE(gpu.contains("PartitionID"));
  EXPECT_EQ(ask("GET", "/nmx/v1/gpus?limit=x").status, 400U);
  EXPECT_EQ(ask("GET", "/nmx/v1/gpus/000000000000000000000000").status, 404U);
  EXPECT_EQ(ask("GET", "/nmx/v1/nothing").status, 404U);
  EXPECT_EQ(ask("GET", "/other").status, 404U);
}

TEST_F(RackManager, UsersAndTheirRights) {
  EXPECT_EQ(ask("GET", "/nmx/v1/gpus/count", "", kReader).status, 200U);
  EXPECT_EQ(ask("POST", "/nmx/v1/partitions", body("a", {}), kReader).status, 403U);
  const NmxmResponse unknown = ask("GET", "/nmx/v1/gpus", "", "Basic eDp5");
  EXPECT_EQ(unknown.status, 401U);
  EXPECT_TRUE(unknown.ask_credentials);
  EXPECT_EQ(ask("GET", "/nmx/v1/gpus", "", "").status, 401U);
}

TEST_F(RackManager, SchemasAreClosed) {
  for (const char* wrong : {"", "[]", "{}", R"({"Name":"a"})", R"({"Name":"","Members":[]})",
                            R"({"Name":"a","Members":[],"x":1})", R"({"Name":"a","Members":[1]})",
                            R"({"Name":"a","Members":["zz"]})", R"({"Name":7,"Members":[]})",
                            R"({"Name":"a","Members":{}})"}) {
    EXPECT_EQ(ask("POST", "/nmx/v1/partitions", wrong).status, 400U) << wrong;
  }
  const json error = json::parse(ask("POST", "/nmx/v1/partitions", "{}").body);
  EXPECT_EQ(error["httpErrorCode"], 400);
  EXPECT_EQ(error["customErrorCode"], "invalid-request");
  EXPECT_EQ(ask("POST", "/nmx/v1/partitions", body("a", {"000000000000000000000000"})).status,
            404U);
  EXPECT_EQ(ask("GET", "/nmx/v1/partitions/short").status, 400U);
  const auto ids = gpus(1);
  EXPECT_EQ(ask("POST", "/nmx/v1/partitions", body("a", {ids[0], ids[0]})).status, 400U)
      << "unique";
  EXPECT_EQ(ask("POST", "/nmx/v1/partitions", body("a", {ids[0], gpus(1, 1)[0]})).status, 400U)
      << "two domains";
}

TEST_F(RackManager, OperationsRunThroughTheirStates) {
  const std::string id = change("POST", "/nmx/v1/partitions", body("a", gpus(1)));
  EXPECT_EQ(operation(id)["Status"], "pending");
  EXPECT_EQ(operation(id)["Request"]["Method"], "post");
  pass(50ms);
  EXPECT_EQ(operation(id)["Status"], "in-progress");
  EXPECT_EQ(operation(id)["Percentage"], 50);
  EXPECT_TRUE(get("/nmx/v1/partitions").empty());
  pass(50ms);
  const json done = operation(id);
  EXPECT_EQ(done["Status"], "completed");
  EXPECT_EQ(done["Percentage"], 100);
  const json partition =
      get("/nmx/v1/partitions/" + done["Result"]["Data"]["ID"].get<std::string>());
  EXPECT_EQ(partition["Name"], "a");
  EXPECT_EQ(partition["PartitionID"], 1);
  EXPECT_EQ(partition["Type"], "ID_BASED");
  EXPECT_EQ(partition["Health"], "HEALTHY");
  EXPECT_EQ(partition["Members"].get<std::vector<std::string>>(), gpus(1));
  EXPECT_EQ(get("/nmx/v1/gpus?limit=1")[0]["PartitionID"], 1);
}

TEST_F(RackManager, UpdateReplacesTheMembership) {
  const auto first = gpus(1), second = gpus(2);
  const std::string partition = made("a", {first[0], first[1]});
  const std::string id = change("PUT", "/nmx/v1/partitions/" + partition,
                                json{{"Members", {first[1], second[0]}}}.dump());
  pass(1s);
  EXPECT_EQ(operation(id)["Status"], "completed");
  EXPECT_EQ(get("/nmx/v1/partitions/" + partition)["Members"].get<std::vector<std::string>>(),
            (std::vector<std::string>{first[1], second[0]}));
  change("PUT", "/nmx/v1/partitions/" + partition, R"({"Members":null})");
  pass(1s);
  EXPECT_TRUE(get("/nmx/v1/partitions/" + partition)["Members"].is_null());
  change("DELETE", "/nmx/v1/partitions/" + partition);
  pass(1s);
  EXPECT_EQ(ask("GET", "/nmx/v1/partitions/" + partition).status, 404U);
}

TEST_F(RackManager, ConflictsAnswer409) {
  const auto ids = gpus(1);
  const std::string partition = made("a", ids);
  EXPECT_EQ(ask("POST", "/nmx/v1/partitions", body("a", gpus(2))).status, 409U) << "name";
  EXPECT_EQ(ask("POST", "/nmx/v1/partitions", body("b", {ids[0]})).status, 409U) << "GPU";
  const json by_location = {{"Members",
                             {{{"DomainUUID", domain_uuid(0)},
                               {"ChassisID", 1},
                               {"SlotID", 2},
                               {"HostID", 1},
                               {"DeviceID", 1}}}}};
  EXPECT_EQ(ask("PUT", "/nmx/v1/partitions/" + partition, by_location.dump()).status, 409U)
      << "kind";
  change("DELETE", "/nmx/v1/partitions/" + partition);
  EXPECT_EQ(ask("DELETE", "/nmx/v1/partitions/" + partition).status, 409U)
      << "one operation at a time";
}

TEST_F(RackManager, WhatOnlyTheControllerSeesFailsTheOperation) {
  begin({.lag = 60s});
  const auto ids = gpus(1);
  {
    MutexLock lock(hosts[0]->mutex);
    Domain& domain = hosts[0]->domain;
    EXPECT_EQ(
        domain
            .change(CreatePartition{"foreign", {domain.uid_of(0)}, ResiliencyMode::kDefault, 0, 0},
                    now)
            .code,
        ReturnCode::kSuccess);
  }
  const std::string id = change("POST", "/nmx/v1/partitions", body("a", ids));
  pass(1s);
  EXPECT_EQ(operation(id)["Status"], "failed");
  EXPECT_EQ(operation(id)["Result"]["Error"], "NMX_ST_RESOURCE_IN_USE");
}

TEST_F(RackManager, OperationsAreCancelled) {
  const std::string id = change("POST", "/nmx/v1/partitions", body("a", gpus(1)));
  change("DELETE", "/nmx/v1/operations/" + id);
  pass(1s);
  EXPECT_EQ(operation(id)["Status"], "cancelled");
  EXPECT_TRUE(get("/nmx/v1/partitions").empty());
  EXPECT_EQ(ask("DELETE", "/nmx/v1/operations/" + id).status, 409U);
}

TEST_F(RackManager, ServicesComeAndGoWithTheirIds) {
  const std::string before = get("/nmx/v1/gpus?limit=1")[0]["ID"];
  const json services = get("/nmx/v1/services");
  ASSERT_EQ(services.size(), 2U);
  EXPECT_EQ(services[0]["ClusterDomainUUID"], domain_uuid(0));
  EXPECT_EQ(ask("DELETE", "/nmx/v1/services/" + services[0]["ID"].get<std::string>()).status, 202U);
  EXPECT_EQ(get("/nmx/v1/gpus").size(), 72U);
  const std::string add =
      R"({"Name":"again","ServiceType":"CONTROLLER","ServiceConnectionInformation":{"Address":"10.0.0.1","PortNumber":9370}})";
  EXPECT_EQ(ask("POST", "/nmx/v1/services", add).status, 202U);
  EXPECT_EQ(ask("POST", "/nmx/v1/services", add).status, 409U);
  EXPECT_EQ(get("/nmx/v1/gpus").size(), 144U);
  EXPECT_NE(get("/nmx/v1/gpus?limit=1")[0]["ID"], before);
}

TEST_F(RackManager, AnnotationsKpisAndMetrics) {
  const std::string id = get("/nmx/v1/gpus?limit=1")[0]["ID"];
  EXPECT_EQ(ask("PUT", "/nmx/v1/gpus/" + id, R"({"Name":"mine"})").status, 200U);
  EXPECT_EQ(get("/nmx/v1/gpus/" + id)["Name"], "mine");
  EXPECT_EQ(ask("PUT", "/nmx/v1/gpus/" + id, "{}").status, 400U);
  EXPECT_TRUE(get("/nmx/v1/kpis")["Health"].contains("gpu-health"));
  EXPECT_EQ(ask("GET", "/nmx/v1/kpis?filter=NOPE").status, 400U);
  EXPECT_EQ(ask("GET", "/nmx/v1/metrics").status, 400U);
  EXPECT_EQ(ask("GET", "/nmx/v1/metrics?id=x").status, 404U);
  EXPECT_THAT(ask("GET", "/nmx/v1/metrics?id=" + domain_uuid(0)).body,
              HasSubstr("PortLocalPhysicalErrors"));
}

TEST_F(RackManager, InteropAnswersArraysOfOne) {
  begin({.interop = true});
  const json list = get("/nmx/v1/ports?limit=1");
  EXPECT_LE(list[0]["PortUID"].get<std::uint64_t>(), 0x7fff'ffffU);
  EXPECT_TRUE(
      get("/nmx/v1/gpus/" + get("/nmx/v1/gpus?limit=1")[0]["ID"].get<std::string>()).is_array());
}

// ---- faults

TEST_F(RackManager, OpStuckLateAndGone) {
  fault(FaultKind::kOpStuck, {.count = 1});
  const std::string stuck = change("POST", "/nmx/v1/partitions", body("a", gpus(1)));
  pass(3600s);
  EXPECT_EQ(operation(stuck)["Status"], "in-progress");
  fault(FaultKind::kOpLate, {.count = 1, .delay = 30s});
  const std::string late = change("POST", "/nmx/v1/partitions", body("b", gpus(2)));
  pass(29s);
  EXPECT_EQ(operation(late)["Status"], "in-progress");
  pass(1s);
  EXPECT_EQ(operation(late)["Status"], "completed");
  fault(FaultKind::kOpGone, {.count = 1});
  const std::string gone = change("POST", "/nmx/v1/partitions", body("c", gpus(3)));
  EXPECT_EQ(ask("GET", "/nmx/v1/operations/" + gone).status, 404U);
}

TEST_F(RackManager, OpLiesBothWaysAndStopsHalfWay) {
  fault(FaultKind::kOpLiesFailed, {.count = 1});
  const std::string failed = change("POST", "/nmx/v1/partitions", body("a", gpus(1)));
  pass(1s);
  EXPECT_EQ(operation(failed)["Status"], "failed");
  EXPECT_EQ(get("/nmx/v1/partitions").size(), 1U) << "and yet it is there";
  fault(FaultKind::kOpLiesDone, {.count = 1, .delay = 60s});
  const std::string done = change("POST", "/nmx/v1/partitions", body("b", gpus(2)));
  pass(1s);
  EXPECT_EQ(operation(done)["Status"], "completed");
  EXPECT_EQ(get("/nmx/v1/partitions").size(), 1U);
  EXPECT_EQ(ask("POST", "/nmx/v1/partitions", body("c", gpus(2))).status, 409U)
      << "its GPUs refuse";
  pass(60s);
  EXPECT_EQ(get("/nmx/v1/partitions").size(), 2U);
  fault(FaultKind::kOpHalf, {.count = 1});
  const std::string half = change("POST", "/nmx/v1/partitions", body("d", gpus(3)));
  pass(1s);
  EXPECT_EQ(operation(half)["Status"], "failed");
  EXPECT_EQ(get("/nmx/v1/partitions")[2]["Members"].size(), 2U);
}

TEST_F(RackManager, IdsChange) {
  const std::string gpu = get("/nmx/v1/gpus?limit=1")[0]["ID"], partition = made("a", gpus(1));
  fault(FaultKind::kIdsChange, {.number = 0});
  EXPECT_NE(get("/nmx/v1/gpus?limit=1")[0]["ID"], gpu);
  EXPECT_NE(get("/nmx/v1/partitions")[0]["ID"], partition);
}

TEST_F(RackManager, StaleInventoryAndEmptyMembers) {
  fault(FaultKind::kStaleInventory);
  made("a", gpus(1));
  EXPECT_FALSE(get("/nmx/v1/gpus?limit=1")[0].contains("PartitionID"));
  fault(FaultKind::kEmptyMembers);
  EXPECT_TRUE(get("/nmx/v1/partitions")[0]["Members"].is_null());
  manager->clear_faults({}, {});
  EXPECT_EQ(get("/nmx/v1/gpus?limit=1")[0]["PartitionID"], 1);
  EXPECT_EQ(get("/nmx/v1/partitions")[0]["Members"].size(), 4U);
}

TEST_F(RackManager, ControllerLostKeepsInventoryAndRefusesChanges) {
  const auto ids = gpus(1);
  fault(FaultKind::kControllerLost, {.number = 0});
  EXPECT_EQ(get("/nmx/v1/services")[0]["Status"], "UNREACHABLE");
  EXPECT_EQ(get("/nmx/v1/services")[1]["Status"], "UP");
  EXPECT_EQ(get("/nmx/v1/gpus").size(), 144U);
  EXPECT_EQ(ask("POST", "/nmx/v1/partitions", body("a", ids)).status, 503U);
}

TEST_F(RackManager, GatewayErrorsExpiredCredentialsAndDoublePosts) {
  fault(FaultKind::kGatewayError, {.count = 1, .number = 504});
  const NmxmResponse error = ask("GET", "/nmx/v1/gpus");
  EXPECT_EQ(error.status, 504U);
  EXPECT_EQ(error.content_type, "text/html");
  fault(FaultKind::kAuthExpired, {.count = 1});
  EXPECT_EQ(ask("GET", "/nmx/v1/gpus").status, 401U);
  const auto ids = gpus(1);
  fault(FaultKind::kDoublePost, {.count = 1});
  EXPECT_EQ(ask("POST", "/nmx/v1/partitions", body("a", ids)).status, 502U);
  pass(1s);
  EXPECT_EQ(get("/nmx/v1/partitions").size(), 1U) << "the change was accepted";
  EXPECT_EQ(ask("POST", "/nmx/v1/partitions", body("a", ids)).status, 409U);
}

TEST_F(RackManager, FaultsOfDomainsAreNotTheManagers) {
  EXPECT_FALSE(manager->inject({.kind = FaultKind::kLinkDown, .starts = now}, now));
}

}  // namespace
}  // namespace imex::rack
