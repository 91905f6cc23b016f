// Endpoints, credentials and browsing.
#include <nlohmann/json.hpp>

#include "administration_kit.hpp"
#include "os/file.hpp"
#include "os/random.hpp"

namespace imex::partition::forge {
namespace {

using nlohmann::json;
using partition::testing::must;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr auto kSoon = std::chrono::seconds(10);

class FabricAdministrationTest : public AdministrationTest {
 protected:
  ObserveFabric observer() override {
    return [this](const Endpoint& endpoint, const fabric::CallOptions&) {
      asked_.push_back(endpoint.url);
      return answer_;
    };
  }
  Result<BrowseAnswer> browse(int operation, std::uint64_t uid = 0,
                              const std::string& chassis = "CH1") {
    return admin().browse(chassis, operation, uid, fabric::CallOptions::within(kSoon));
  }
  EndpointId nmxm(const std::string& url = "https://nmx-m") {
    Endpoint endpoint{.id = {os::random_uuid()},
                      .site = world_.site.id,
                      .protocol = FabricProtocol::kNmxM,
                      .url = url};
    must(insert(endpoint));
    return endpoint.id;
  }
  static fabric::Snapshot snapshot() {
    fabric::Snapshot snapshot;
    snapshot.domain_uuid = must(Uuid::parse("aaaaaaaa-0000-0000-0000-000000000001"));
    snapshot.instance = "app-1";
    for (std::uint32_t gpu = 0; gpu < 2; ++gpu) {
      snapshot.gpus.push_back({.uid = 0xfedc'ba98'7654'3210 + gpu,
                               .module_id = gpu + 1,
                               .place = {.chassis_id = 1,
                                         .chassis_serial = "CH1",
                                         .slot_id = 3,
                                         .tray_index = 2,
                                         .host_id = 1},
                               .health = fabric::GpuHealth::kHealthy});
    }
    snapshot.gpus[1].partition_id = 7;
    snapshot.nodes.push_back(
        {.place = snapshot.gpus[0].place, .health = fabric::NodeHealth::kDegraded, .gpu_count = 2});
    return snapshot;
  }

  Result<fabric::Snapshot> answer_ = snapshot();
  std::vector<std::string> asked_;
};

TEST_F(FabricAdministrationTest, EndpointsAreEnteredChangedAndRemovedByChassis) {
  EXPECT_THAT(must(admin().endpoints()), IsEmpty());  // the rack's own has no chassis
  const auto made = must(admin().create_endpoint(kOperator, {"CH1", "http://10.0.0.1:9370"}));
  EXPECT_EQ(made.chassis_serial, "CH1");
  EXPECT_EQ(made.url, "http://10.0.0.1:9370");
  must(admin().create_endpoint(kOperator, {"CH0", "https://10.0.0.2:9370"}));
  const auto both = must(admin().endpoints());
  ASSERT_THAT(both, SizeIs(2));
  EXPECT_EQ(both[0].chassis_serial, "CH0");
  must(admin().update_endpoint(kOperator, {"CH1", "https://10.0.0.9:9370"}));
  EXPECT_EQ(must(admin().endpoints()).at(1).url, "https://10.0.0.9:9370");
  must(admin().delete_endpoint(kOperator, "CH1"));
  EXPECT_THAT(must(admin().endpoints()), SizeIs(1));
}

TEST_F(FabricAdministrationTest, ChangesOfEndpointsWakeTheReconciler) {
  std::uint64_t change = store().change();
  const auto grown = [&] { return std::exchange(change, store().change()) < store().change(); };
  must(admin().create_endpoint(kOperator, {"CH1", "http://a:1"}));
  EXPECT_TRUE(grown());
  must(admin().update_endpoint(kOperator, {"CH1", "http://b:1"}));
  EXPECT_TRUE(grown());
  must(admin().update_endpoint(kOperator, {"CH1", "http://b:1"}));
  EXPECT_FALSE(grown());
  must(admin().delete_endpoint(kOperator, "CH1"));
  EXPECT_TRUE(grown());
}

TEST_F(FabricAdministrationTest, EndpointsThatCannotBeAreRefused) {
  EXPECT_THAT(admin().create_endpoint(kOperator, {"", "http://a:1"}),
              FailsWith(Errc::kInvalidArgument, "chassis_serial is missing"));
  EXPECT_THAT(admin().create_endpoint(kOperator, {"CH1", ""}),
              FailsWith(Errc::kInvalidArgument, "endpoint is missing"));
  for (const char* url : {"10.0.0.1:9370", "grpc://a:1", "http://", "ftp://a"}) {
    EXPECT_THAT(admin().create_endpoint(kOperator, {"CH1", url}),
                FailsWith(Errc::kInvalidArgument, "is no URL"))
        << url;
  }
  must(admin().create_endpoint(kOperator, {"CH1", "http://a:1"}));
  EXPECT_THAT(admin().create_endpoint(kOperator, {"CH1", "http://b:1"}),
              FailsWith(Errc::kAlreadyExists, "'CH1' has the endpoint http://a:1"));
  EXPECT_THAT(admin().create_endpoint(kOperator, {"CH2", "http://a:1"}),
              FailsWith(Errc::kAlreadyExists, "http://a:1 is entered already"));
  EXPECT_THAT(admin().update_endpoint(kOperator, {"CH3", "http://c:1"}),
              FailsWith(Errc::kNotFound, "chassis 'CH3'"));
  EXPECT_THAT(admin().update_endpoint(kOperator, {"CH1", "c:1"}),
              FailsWith(Errc::kInvalidArgument, "is no URL"));
  EXPECT_THAT(admin().delete_endpoint(kOperator, "CH3"),
              FailsWith(Errc::kNotFound, "chassis 'CH3'"));
  EXPECT_THAT(admin().delete_endpoint(kOperator, ""),
              FailsWith(Errc::kInvalidArgument, "chassis_serial is missing"));
}

TEST_F(FabricAdministrationTest, OneOfSeveralEndpointsOfAChassisIsNotGuessed) {
  for (const char* url : {"http://a:1", "http://b:1"}) {
    must(insert(Endpoint{
        .id = {os::random_uuid()}, .site = world_.site.id, .url = url, .chassis_serial = "CH1"}));
  }
  EXPECT_THAT(admin().update_endpoint(kOperator, {"CH1", "http://c:1"}),
              FailsWith(Errc::kFailedPrecondition, "2 endpoints"));
  EXPECT_THAT(admin().delete_endpoint(kOperator, "CH1"),
              FailsWith(Errc::kFailedPrecondition, "2 endpoints"));
}

// ---- Credentials

TEST_F(FabricAdministrationTest, CredentialsAreSealedBesideEveryNmxMEndpoint) {
  const EndpointId first = nmxm("https://m1"), second = nmxm("https://m2");
  must(admin().add_nmxm_credentials(kOperator, "nico", log::Secret("correct horse")));
  for (const EndpointId& id : {first, second}) {
    const auto opened = must(store().credentials(id));
    EXPECT_EQ(opened.user, "nico");
    EXPECT_EQ(opened.password.reveal(), "correct horse");
  }
  EXPECT_FALSE(find<Endpoint>(world_.endpoint.id)->has_credentials) << "NMX-C has certificates";
  for (const AuditRecord& line : audit())
    EXPECT_THAT(line.from_json + line.to_json, Not(HasSubstr("correct horse")));
}

TEST_F(FabricAdministrationTest, CredentialsAreReplacedAndKeepCertificatePaths) {
  const EndpointId id = nmxm();
  must(store().put_credentials(kOperator, id, {.ca_certificate_path = "/etc/ca.pem"}));
  must(admin().add_nmxm_credentials(kOperator, "old", log::Secret("1")));
  must(admin().add_nmxm_credentials(kOperator, "new", log::Secret("2")));
  EXPECT_EQ(must(store().credentials(id)).user, "new");
  EXPECT_EQ(must(store().credentials(id)).ca_certificate_path, "/etc/ca.pem");
}

TEST_F(FabricAdministrationTest, CredentialsAreDeletedByTheirUser) {
  const EndpointId id = nmxm();
  must(admin().add_nmxm_credentials(kOperator, "nico", log::Secret("p")));
  EXPECT_THAT(admin().delete_nmxm_credentials(kOperator, "somebody"),
              FailsWith(Errc::kNotFound, "'somebody'"));
  must(admin().delete_nmxm_credentials(kOperator, "nico"));
  EXPECT_TRUE(must(store().credentials(id)).user.empty());
  EXPECT_TRUE(must(store().credentials(id)).password.empty());
  EXPECT_THAT(admin().delete_nmxm_credentials(kOperator, "nico"),
              FailsWith(Errc::kNotFound, "'nico'"));
}

TEST_F(FabricAdministrationTest, CredentialsThatCannotBeAreRefused) {
  EXPECT_THAT(admin().add_nmxm_credentials(kOperator, "nico", log::Secret("p")),
              FailsWith(Errc::kFailedPrecondition, "no NMX-M endpoint"));
  nmxm();
  EXPECT_THAT(admin().add_nmxm_credentials(kOperator, "", log::Secret("p")),
              FailsWith(Errc::kInvalidArgument, "username is missing"));
  EXPECT_THAT(admin().add_nmxm_credentials(kOperator, "a:b", log::Secret("p")),
              FailsWith(Errc::kInvalidArgument, "colon"));
  EXPECT_THAT(admin().add_nmxm_credentials(kOperator, "nico", log::Secret("")),
              FailsWith(Errc::kInvalidArgument, "password is missing"));
  EXPECT_THAT(admin().add_nmxm_credentials(kOperator, "nico", log::Secret(std::string(5000, 'x'))),
              FailsWith(Errc::kInvalidArgument, "4096 bytes"));
}

// ---- Browsing

TEST_F(FabricAdministrationTest, BrowsingShowsGpusWithTheNamesOfNmxC) {
  must(admin().create_endpoint(kOperator, {"CH1", "http://a:1"}));
  const auto answer = must(browse(3));
  EXPECT_EQ(answer.code, 200);
  const json body = json::parse(answer.body);
  EXPECT_EQ(body["server_header"]["domain_uuid"], "aaaaaaaa-0000-0000-0000-000000000001");
  ASSERT_THAT(body["gpu_info_list"], SizeIs(2));
  const json& gpu = body["gpu_info_list"][1];
  EXPECT_EQ(gpu["gpu_uid"], 0xfedc'ba98'7654'3211U);
  EXPECT_EQ(gpu["gpu_id"], 2);
  EXPECT_EQ(gpu["partition_id"]["partition_id"], 7);
  EXPECT_TRUE(body["gpu_info_list"][0]["partition_id"].is_null());
  EXPECT_EQ(gpu["loc"]["chassis_serial_number"], "CH1");
  EXPECT_EQ(gpu["loc"]["tray_index"], 2);
  EXPECT_EQ(gpu["loc"]["location"]["slot_id"], 3);
  EXPECT_THAT(asked_, ::testing::ElementsAre("http://a:1"));
}

TEST_F(FabricAdministrationTest, BrowsingShowsNodesAndOneGpu) {
  must(admin().create_endpoint(kOperator, {"CH1", "http://a:1"}));
  const json nodes = json::parse(must(browse(1)).body);
  ASSERT_THAT(nodes["node_info_list"], SizeIs(1));
  EXPECT_EQ(nodes["node_info_list"][0]["num_gpus"], 2);
  EXPECT_EQ(nodes["node_info_list"][0]["node_health"], 2);
  const json gpu = json::parse(must(browse(2, 0xfedc'ba98'7654'3210)).body);
  EXPECT_EQ(gpu["ID"], "18364758544493064720");
  EXPECT_EQ(gpu["DeviceID"], 1);
  EXPECT_EQ(gpu["LocationInfo"]["TrayIndex"], 2);
}

TEST_F(FabricAdministrationTest, BrowsingAnswersWhatCannotBeWithACode) {
  must(admin().create_endpoint(kOperator, {"CH1", "http://a:1"}));
  EXPECT_EQ(must(browse(2, 5)).code, 404);
  EXPECT_THAT(must(browse(2, 5)).body, HasSubstr("GPU not found: 5"));
  asked_.clear();
  EXPECT_EQ(must(browse(2)).code, 400);
  EXPECT_EQ(must(browse(0)).code, 400);
  EXPECT_EQ(must(browse(9)).code, 400);
  EXPECT_THAT(asked_, IsEmpty()) << "a wrong request does not reach the fabric manager";
}

TEST_F(FabricAdministrationTest, BrowsingNeedsAnEndpointThatAnswers) {
  EXPECT_THAT(browse(3), FailsWith(Errc::kNotFound, "chassis 'CH1'"));
  EXPECT_THAT(browse(3, 0, ""), FailsWith(Errc::kInvalidArgument, "chassis_serial is missing"));
  must(admin().create_endpoint(kOperator, {"CH1", "http://a:1"}));
  answer_ = fail(Errc::kUnavailable, "connection refused");
  EXPECT_THAT(browse(3), FailsWith(Errc::kUnavailable, "connection refused"));
  Administration unwired(store(), {.site = world_.site.id});
  EXPECT_THAT(unwired.browse("CH1", 3, 0, fabric::CallOptions::within(kSoon)),
              FailsWith(Errc::kUnavailable, "not connected"));
}

TEST_F(FabricAdministrationTest, BrowsingFailsOverBetweenEndpointsOfAChassis) {
  for (const char* url : {"http://a:1", "http://b:1"}) {
    must(insert(Endpoint{
        .id = {os::random_uuid()}, .site = world_.site.id, .url = url, .chassis_serial = "CH1"}));
  }
  int calls = 0;
  Administration failing(
      store(),
      {.site = world_.site.id,
       .observe = [&](const Endpoint&, const fabric::CallOptions&) -> Result<fabric::Snapshot> {
         if (++calls == 1) return fail(Errc::kUnavailable, "gone");
         return snapshot();
       }});
  EXPECT_EQ(must(failing.browse("CH1", 3, 0, fabric::CallOptions::within(kSoon))).code, 200);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace imex::partition::forge
