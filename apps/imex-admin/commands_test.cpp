// Every command against a real service over a real store: what is printed, in which shape, and the
// exit status.
#include <fstream>
#include <mutex>
#include <sstream>

#include <gmock/gmock.h>

#include "administration_kit.hpp"
#include "os/file.hpp"
#include "os/random.hpp"
#include "partition/forge/forge_server.hpp"
#include "test_certificates.hpp"
#include "tree.hpp"

namespace imex::admin {
namespace {

namespace forge = partition::forge;
using forge::AdministrationTest;
using partition::Endpoint;
using partition::FabricProtocol;
using partition::Instance;
using partition::LogicalPartition;
using partition::LogicalPartitionId;
using partition::Machine;
using partition::PhysicalPartition;
using partition::PhysicalPartitionId;
using partition::WriteTransaction;
using partition::testing::must;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Finished {
  int status = -1;
  std::string out, err;
};

class CommandsTest : public AdministrationTest {
 protected:
  void SetUp() override {
    AdministrationTest::SetUp();
    directory_ = must(os::make_temporary_directory("imex-admin-"));
    for (const char* name : {"API_URL", "ROOT_CA_PATH", "CLIENT_CERT_PATH", "CLIENT_KEY_PATH"})
      ::unsetenv(name);
    server_ =
        must(forge::ForgeServer::start({.listen = {"127.0.0.1:0"}, .trust_local = true}, admin()));
    url_ = "http://" + server_->addresses().at(0);
  }
  void TearDown() override {
    server_.reset();
    EXPECT_TRUE(os::remove_tree(directory_));
    AdministrationTest::TearDown();
  }
  forge::ObserveFabric observer() override {
    return [this](const Endpoint&, const fabric::CallOptions&) -> Result<fabric::Snapshot> {
      fabric::Snapshot snapshot;
      snapshot.domain_uuid = world_.domain.uuid;
      for (std::uint32_t tray = 0; tray < 2; ++tray) {
        for (std::uint32_t gpu = 4; gpu > 0; --gpu) {
          snapshot.gpus.push_back(
              {.uid = 1000 + std::uint64_t{tray} * 4 + gpu - 1,
               .module_id = gpu,
               .place = {.chassis_serial = "CH1", .slot_id = tray + 1, .tray_index = tray}});
        }
      }
      return snapshot;
    };
  }

  static Finished run_words(std::vector<std::string> words) {
    words.insert(words.begin(), "imex-admin");
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Finished run;
    {
      CommandTree tree;
      run.status = tree.run(static_cast<int>(argv.size()), argv.data());
    }
    run.out = ::testing::internal::GetCapturedStdout();
    run.err = ::testing::internal::GetCapturedStderr();
    return run;
  }
  /// `line` split at blanks, asked of the server.
  Finished run(const std::string& line) {
    std::istringstream in(line);
    std::vector<std::string> words{"--api-url", url_};
    for (std::string word; in >> word;) words.push_back(word);
    return run_words(std::move(words));
  }
  /// What it prints when it succeeds.
  std::string shown(const std::string& line) {
    const Finished done = run(line);
    EXPECT_EQ(done.status, kExitOk) << line << '\n' << done.err;
    return done.out;
  }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }
  LogicalPartition fixed_partition(const char* id, const std::string& name) {
    return must(admin().create_partition(
                    kOperator,
                    {.id = LogicalPartitionId{must(Uuid::parse(id))}, .org = "acme", .name = name}))
        .record;
  }
  static constexpr const char* kFirst = "11111111-0000-4000-8000-000000000001";
  static constexpr const char* kSecond = "22222222-0000-4000-8000-000000000002";
  static constexpr const char* kUnknown = "99999999-0000-4000-8000-000000000009";

  std::string directory_, url_;
  std::unique_ptr<forge::ForgeServer> server_;
};

// ---- Endpoints

TEST_F(CommandsTest, EndpointsAreEnteredShownChangedAndDeleted) {
  EXPECT_EQ(shown("nvlink-nmxc-endpoints create --chassis-serial CH1 --endpoint http://a:9370"),
            "CH1 http://a:9370\n");
  EXPECT_EQ(shown("nvlink-nmxc-endpoints create --chassis-serial CH2 --endpoint https://b:9370 "
                  "--format json"),
            "{\n  \"chassis_serial\": \"CH2\",\n  \"endpoint\": \"https://b:9370\"\n}\n");
  EXPECT_EQ(shown("nvlink-nmxc-endpoints show"),
            "+----------------+----------------+\n"
            "| chassis_serial | endpoint       |\n"
            "+----------------+----------------+\n"
            "| CH1            | http://a:9370  |\n"
            "| CH2            | https://b:9370 |\n"
            "+----------------+----------------+\n");
  EXPECT_EQ(shown("nvlink-nmxc-endpoints show -f csv"),
            "chassis_serial,endpoint\nCH1,http://a:9370\nCH2,https://b:9370\n");
  EXPECT_EQ(shown("nvlink-nmxc-endpoints show --chassis-serial CH2 -f yaml"),
            "- chassis_serial: CH2\n  endpoint: \"https://b:9370\"\n");
  EXPECT_EQ(shown("nvlink-nmxc-endpoints update --chassis-serial CH1 --endpoint http://c:9370"),
            "CH1 http://c:9370\n");
  EXPECT_EQ(shown("nvlink-nmxc-endpoints delete --chassis-serial CH1"), "deleted CH1\n");
  EXPECT_EQ(shown("nvlink-nmxc-endpoints show -f json"),
            "[\n  {\n    \"chassis_serial\": \"CH2\",\n    \"endpoint\": \"https://b:9370\"\n  "
            "}\n]\n");
}

TEST_F(CommandsTest, EndpointErrorsTeach) {
  const Finished absent = run("nvlink-nmxc-endpoints delete --chassis-serial CH9");
  EXPECT_EQ(absent.status, kExitFailed);
  EXPECT_EQ(absent.out, "");
  EXPECT_THAT(absent.err, AllOf(StartsWith("imex-admin: delete the endpoint of chassis 'CH9': no "
                                           "NMX-C endpoint for chassis 'CH9'"),
                                HasSubstr("nvlink-nmxc-endpoints show")));
  EXPECT_EQ(run("nvlink-nmxc-endpoints show --chassis-serial CH9").status, kExitFailed);
  const Finished wrong = run("nvlink-nmxc-endpoints create --chassis-serial CH1 --endpoint a:9370");
  EXPECT_EQ(wrong.status, kExitFailed) << "what the controller refuses is failed work";
  EXPECT_THAT(wrong.err, HasSubstr("http://HOST:PORT"));
  const Finished json = run("nvlink-nmxc-endpoints delete --chassis-serial CH9 --format json");
  EXPECT_THAT(json.out, StartsWith("{\"error\":{\"code\":\"not_found\",\"message\":\"delete"));
  const Finished missing = run("nvlink-nmxc-endpoints create --chassis-serial CH1");
  EXPECT_EQ(missing.status, kExitUsage);
  EXPECT_THAT(missing.err, HasSubstr("--endpoint"));
}

// ---- Credentials

TEST_F(CommandsTest, CredentialsAreStoredAndDeletedSilently) {
  const Endpoint nmxm{.id = {os::random_uuid()},
                      .site = world_.site.id,
                      .protocol = FabricProtocol::kNmxM,
                      .url = "https://nmx-m"};
  must(insert(nmxm));
  const Finished added = run("credential add-nmx-m --username nico --password hunter2");
  EXPECT_EQ(added.status, kExitOk);
  EXPECT_EQ(added.out + added.err, "");
  EXPECT_EQ(must(store().credentials(nmxm.id)).password.reveal(), "hunter2");
  const std::string path = file("secret", "correct horse\n");
  EXPECT_EQ(shown("credential add-nmx-m --username nico --password-file " + path), "");
  EXPECT_EQ(must(store().credentials(nmxm.id)).password.reveal(), "correct horse");
  EXPECT_EQ(shown("credential delete-nmx-m --username nico --format json"), "");
  EXPECT_EQ(run("credential delete-nmx-m --username nico").status, kExitFailed);
}

TEST_F(CommandsTest, CredentialErrorsDoNotShowThePassword) {
  const Finished refused = run("credential add-nmx-m --username nico --password hunter2 -f json");
  EXPECT_EQ(refused.status, kExitFailed);
  EXPECT_THAT(refused.err, HasSubstr("no NMX-M endpoint"));
  EXPECT_THAT(refused.out + refused.err, Not(HasSubstr("hunter2")));
  EXPECT_EQ(run("credential add-nmx-m --username nico").status, kExitUsage);
  EXPECT_EQ(run("credential add-nmx-m --username nico --password a --password-file b").status,
            kExitUsage);
  EXPECT_EQ(
      run("credential add-nmx-m --username nico --password-file " + file("empty", "\n")).status,
      kExitUsage);
}

// ---- Logical partitions

TEST_F(CommandsTest, LogicalPartitionsAreShownAsTheirManualSays) {
  EXPECT_EQ(shown("logical-partition show"), "+----+-------+\n| Id | State |\n+----+-------+\n");
  fixed_partition(kFirst, "training");
  fixed_partition(kSecond, "inference");
  EXPECT_EQ(shown("lp show"),
            "+--------------------------------------+-------+\n"
            "| Id                                   | State |\n"
            "+--------------------------------------+-------+\n"
            "| 11111111-0000-4000-8000-000000000001 | READY |\n"
            "| 22222222-0000-4000-8000-000000000002 | READY |\n"
            "+--------------------------------------+-------+\n");
  EXPECT_EQ(shown("lp show --name inference -f csv"),
            std::string("Id,State\n") + kSecond + ",READY\n");
  EXPECT_EQ(shown(std::string("lp show ") + kFirst),
            "ID     : 11111111-0000-4000-8000-000000000001\n"
            "NAME   : training\n"
            "STATUS : READY\n");
  EXPECT_EQ(shown(std::string("lp show -f csv ") + kFirst),
            std::string("ID,NAME,STATUS\n") + kFirst + ",training,READY\n");
  const Json json = Json::parse(shown(std::string("lp show --format json ") + kFirst));
  EXPECT_EQ(json["config"]["metadata"]["name"], "training");
  EXPECT_EQ(json["config"]["tenant_organization_id"], "acme");
  EXPECT_EQ(json["status"]["state"], "READY");
  EXPECT_THAT(json["config_version"].get<std::string>(), StartsWith("V1-T"));
  EXPECT_EQ(Json::parse(shown("lp show --format json")).size(), 2U);
}

TEST_F(CommandsTest, LogicalPartitionsAreReadPageByPage) {
  for (int i = 0; i < 5; ++i) partition("p" + std::to_string(i));
  EXPECT_EQ(Json::parse(shown("-p 2 lp show -f json")).size(), 5U);
  EXPECT_EQ(run("-p 101 lp show").status, kExitUsage);
  EXPECT_EQ(run("-p 0 lp show").status, kExitUsage);
}

TEST_F(CommandsTest, LogicalPartitionsAreMadeAndDeleted) {
  const std::string made = shown("logical-partition create -n training -t acme");
  EXPECT_THAT(made, AllOf(StartsWith("ID     : "), HasSubstr("NAME   : training\n")));
  EXPECT_EQ(shown("logical-partition delete -n " + made.substr(9, 36)), "");
  const Finished again = run("logical-partition delete -n " + made.substr(9, 36));
  EXPECT_EQ(again.status, kExitFailed);
  EXPECT_THAT(again.err, HasSubstr("no logical partition"));
  partition("taken");
  EXPECT_THAT(run("lp create -n taken -t acme").err,
              HasSubstr("create logical partition 'taken': organisation 'acme' has"));
  EXPECT_EQ(run(std::string("lp show ") + kUnknown).status, kExitFailed);
  EXPECT_EQ(run("lp show not-a-uuid").status, kExitFailed);
  EXPECT_EQ(run("lp create -n training").status, kExitUsage);
}

// ---- Physical partitions

TEST_F(CommandsTest, NvlPartitionsAreShownAsTheirManualSays) {
  const auto logical = fixed_partition(kFirst, "training");
  must(store().write(kOperator, [&](WriteTransaction& t) {
    return t.put_physical({.id = PhysicalPartitionId{must(Uuid::parse(kSecond))},
                           .domain = world_.domain,
                           .fabric_id = 7,
                           .partition = logical.id,
                           .tenant = logical.tenant,
                           .name = "training,1000"});
  }));
  const std::string id = list<PhysicalPartition>().at(0).id.to_string();
  EXPECT_EQ(shown("nvl-partition show -f csv"),
            "Id,Name,TenantOrg\n" + id + ",\"training,1000\",\n");
  EXPECT_THAT(shown("nvp show --tenant-org-id acme"),
              HasSubstr("| " + id + " | training,1000 |           |\n"));
  EXPECT_EQ(shown("nvp show --tenant-org-id umbrella -f json"), "[]\n");
  EXPECT_EQ(shown("nvp show --name nothing -f json"), "[]\n");
  EXPECT_EQ(shown("nvp show " + id), "ID                   : " + id +
                                         "\n"
                                         "NAME                 : training,1000\n"
                                         "LOGICAL PARTITION ID : " +
                                         kFirst +
                                         "\n"
                                         "NMX-C PARTITION ID   : 7\n"
                                         "NVLINK DOMAIN UUID   : " +
                                         world_.domain.to_string() + "\n");
  EXPECT_EQ(Json::parse(shown("nvp show -f json " + id))["nmx_c_partition_id"], "7");
  EXPECT_EQ(run(std::string("nvp show ") + kUnknown).status, kExitFailed);
}

// ---- Machines

TEST_F(CommandsTest, NvlinkInfoIsShownAsJson) {
  const std::string text = shown("machine nvlink-info show CH1.1.1");
  const Json json = Json::parse(text);
  EXPECT_EQ(json["domain_uuid"], world_.domain.to_string());
  EXPECT_EQ(json["chassis_serial"], "CH1");
  EXPECT_EQ(json["gpus"].size(), 4U);
  EXPECT_EQ(json["gpus"][0].dump(), R"({"tray_index":0,"slot_id":1,"device_id":1,"guid":1000})");
  EXPECT_EQ(shown("machine nvlink-info show CH1.1.1 --format json"), text);
  EXPECT_THAT(shown("machine nvlink-info show CH1.1.1 -f csv"),
              StartsWith("domain_uuid,chassis_serial,tray_index,slot_id,device_id,guid\n" +
                         world_.domain.to_string() + ",CH1,0,1,1,1000\n"));
  EXPECT_THAT(shown("machine nvlink-info show CH1.1.1 -f yaml"),
              HasSubstr("gpus:\n  - tray_index: 0\n    slot_id: 1\n"));
  const Finished absent = run("machine nvlink-info show nobody");
  EXPECT_EQ(absent.status, kExitFailed);
  EXPECT_THAT(absent.err, HasSubstr("no machine nobody"));
}

TEST_F(CommandsTest, PopulateLooksAndStoresOnlyWhenTold) {
  must(admin().create_endpoint(kOperator, {"CH1", "http://a:1"}));
  auto machine = *find<Machine>(partition::testing::machine_of(1));
  machine.gpus.resize(1);
  must(update(machine));
  const Finished looked = run("machine nvlink-info populate CH1.2.1");
  EXPECT_EQ(looked.status, kExitOk) << looked.err;
  EXPECT_THAT(looked.err, HasSubstr("--update-db"));
  const Json json = Json::parse(looked.out);
  ASSERT_EQ(json["gpus"].size(), 4U);
  EXPECT_EQ(json["gpus"][0].dump(), R"({"tray_index":1,"slot_id":2,"device_id":1,"guid":1004})");
  EXPECT_EQ(find<Machine>(machine.id)->gpus.size(), 1U) << "looking stores nothing";
  const Finished stored = run("machine nvlink-info populate --update-db CH1.2.1");
  EXPECT_EQ(stored.status, kExitOk) << stored.err;
  EXPECT_EQ(stored.out, looked.out);
  EXPECT_EQ(find<Machine>(machine.id)->gpus.size(), 4U);
}

TEST_F(CommandsTest, PopulateSaysWhatItLacks) {
  EXPECT_THAT(run("machine nvlink-info populate CH1.1.1").err, HasSubstr("no NMX-C endpoint"));
  must(admin().create_endpoint(kOperator, {"CH1", "http://a:1"}));
  const Finished elsewhere = run("machine nvlink-info populate CH1.1.1 --tray-index 17");
  EXPECT_EQ(elsewhere.status, kExitFailed);
  EXPECT_THAT(elsewhere.err, HasSubstr("no GPU in tray 17 of chassis 'CH1', and 8 elsewhere"));
  auto machine = *find<Machine>(partition::testing::machine_of(0));
  machine.chassis_serial.clear();
  machine.gpus.clear();
  must(update(machine));
  EXPECT_THAT(run("machine nvlink-info populate CH1.1.1").err, HasSubstr("--chassis-serial"));
  EXPECT_THAT(run("machine nvlink-info populate CH1.1.1 --chassis-serial CH1").err,
              HasSubstr("--tray-index"));
  EXPECT_THAT(run("machine nvlink-info show CH1.1.1").err, HasSubstr("no NVLink information"));
  EXPECT_EQ(run("machine nvlink-info populate CH1.1.1 --chassis-serial CH1 --tray-index 0 "
                "--update-db")
                .status,
            kExitOk);
  EXPECT_EQ(find<Machine>(machine.id)->gpus.size(), 4U);
}

TEST_F(CommandsTest, ForceDeleteTellsWhatIsGone) {
  auto machine = *find<Machine>(partition::testing::machine_of(0));
  machine.instance_type = world_.type.id;
  must(update(machine));
  const Finished refused = run("machine force-delete CH1.1.1");
  EXPECT_EQ(refused.status, kExitFailed);
  EXPECT_THAT(refused.err, HasSubstr("associated with instance type"));
  const auto instance = ready_instance(partition("p"), "i");
  const Finished done =
      run("machine force-delete --machine CH1.1.1 --allow-delete-with-instance-type");
  EXPECT_EQ(done.status, kExitOk) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("instance " + instance.id.to_string() + " is gone\n"),
                              HasSubstr("machine CH1.1.1 is gone")));
  EXPECT_EQ(done.out, "MACHINE ID  : CH1.1.1\nINSTANCE ID : " + instance.id.to_string() +
                          "\nALL DONE    : true\n");
  EXPECT_FALSE(find<Machine>(machine.id));
  const Finished again = run("machine force-delete CH1.1.1 -q -f json");
  EXPECT_EQ(again.status, kExitOk);
  EXPECT_EQ(again.err, "");
  EXPECT_TRUE(Json::parse(again.out)["machine_id"].is_null());
}

// ---- Instances

TEST_F(CommandsTest, InstancesShowConfigurationAndStatusSideBySide) {
  const auto instance = ready_instance(fixed_partition(kFirst, "training"), "i");
  const std::string id = instance.id.to_string();
  const std::string text = shown("instance show " + id);
  EXPECT_THAT(text, StartsWith("ID             : " + id +
                               "\nMACHINE ID     : CH1.1.1\n"
                               "NAME           : i\nTENANT ORG     : acme\n"
                               "STATE          : READY\nCONFIGS SYNCED : SYNCED\n"));
  EXPECT_THAT(text, HasSubstr("| 2              | " + std::string(kFirst) + " | " + kFirst));
  EXPECT_THAT(shown("instance show -f csv " + id),
              HasSubstr("\n3," + std::string(kFirst) + "," + kFirst + "," +
                        world_.domain.to_string() + ",1003\n"));
  const Json json = Json::parse(shown("instance show -f json " + id));
  EXPECT_EQ(json["config"]["nvlink"]["gpu_configs"].size(), 4U);
  EXPECT_EQ(json["status"]["nvlink"]["gpu_statuses"][1]["gpu_guid"], "1001");
  EXPECT_EQ(run(std::string("instance show ") + kUnknown).status, kExitFailed);
}

TEST_F(CommandsTest, InstanceConfigurationIsReplacedOnlyWithTheFlag) {
  const auto instance = ready_instance(fixed_partition(kFirst, "training"), "i");
  fixed_partition(kSecond, "inference");
  const std::string id = instance.id.to_string();
  const std::string config = std::string(R"({"gpu_configs":[{"device_instance":0,)") +
                             R"("logical_partition_id":")" + kSecond + R"("}]})";
  const Finished refused = run("instance update-nvlink-config -i " + id + " --config " + config);
  EXPECT_EQ(refused.status, kExitUsage);
  EXPECT_THAT(refused.err, HasSubstr("--cloud-unsafe-op"));
  EXPECT_EQ(find<Instance>(instance.id)->version, instance.version);
  EXPECT_EQ(
      shown("--cloud-unsafe-op instance update-nvlink-config -i " + id + " --config " + config),
      "");
  EXPECT_EQ(find<Instance>(instance.id)->version, instance.version + 1);
  // As NICo's own is written, with a name behind the flag.
  EXPECT_EQ(shown("--cloud-unsafe-op alice instance update-nvlink-config -i " + id +
                  R"( --config {"gpu_configs":[]})"),
            "");
  EXPECT_EQ(find<Instance>(instance.id)->version, instance.version + 2);
}

TEST(NvlinkConfig, IsCheckedBeforeAnythingIsAsked) {
  const auto wrong = [](const std::string& text) {
    const auto parsed = parse_nvlink_config(text);
    EXPECT_FALSE(parsed) << text;
    return parsed ? std::string() : parsed.error().to_string();
  };
  EXPECT_THAT(wrong("{"), HasSubstr("not JSON"));
  EXPECT_THAT(wrong("[]"), HasSubstr("gpu_configs"));
  EXPECT_THAT(wrong("{}"), HasSubstr("gpu_configs"));
  EXPECT_THAT(wrong(R"({"gpu_configs":[], "more": 1})"), HasSubstr("the one key"));
  EXPECT_THAT(wrong(R"({"gpu_configs":[5]})"), HasSubstr("no object"));
  EXPECT_THAT(wrong(R"({"gpu_configs":[{}]})"), HasSubstr("device_instance"));
  EXPECT_THAT(wrong(R"({"gpu_configs":[{"device_instance":-1}]})"), HasSubstr("device_instance"));
  EXPECT_THAT(wrong(R"({"gpu_configs":[{"device_instance":0,"lp":1}]})"),
              HasSubstr("unknown key 'lp'"));
  EXPECT_THAT(wrong(R"({"gpu_configs":[{"device_instance":0,"logical_partition_id":"x"}]})"),
              HasSubstr("no UUID"));
  const auto fine = parse_nvlink_config(
      R"({"gpu_configs":[{"device_instance":3,"logical_partition_id":{"value":)"
      R"("11111111-0000-4000-8000-000000000001"}},{"device_instance":1,"logical_partition_id":null}]})");
  ASSERT_TRUE(fine);
  EXPECT_EQ(fine->gpu_configs(0).device_instance(), 3U);
  EXPECT_FALSE(fine->gpu_configs(1).has_logical_partition_id());
}

TEST(GpuLists, ThatMakeNoSenseAreErrors) {
  const auto code = [](const std::string& text) {
    const auto found = nvlink_info_of(text, "CH1", 0);
    return found ? Errc::kOk : found.error().code;
  };
  EXPECT_EQ(code("nonsense"), Errc::kDataLoss);
  EXPECT_EQ(code("[]"), Errc::kDataLoss);
  EXPECT_EQ(code(R"({"gpu_info_list": {}})"), Errc::kDataLoss);
  EXPECT_EQ(code(R"({"gpu_info_list": [1]})"), Errc::kDataLoss);
  EXPECT_EQ(code(R"({"gpu_info_list": []})"), Errc::kNotFound);
  const std::string place = R"("loc":{"chassis_serial_number":"CH1","tray_index":0,)"
                            R"("location":{"slot_id":1}})";
  EXPECT_EQ(code(R"({"gpu_info_list": [{)" + place + R"(,"gpu_id":1}]})"), Errc::kDataLoss);
  const std::string gpu = "{" + place + R"(,"gpu_id":1,"gpu_uid":18446744073709551615})";
  EXPECT_EQ(code(R"({"gpu_info_list": [)" + gpu + "]}"), Errc::kDataLoss) << "no domain";
  EXPECT_EQ(code(R"({"server_header":{"domain_uuid":"11111111-0000-4000-8000-000000000001"},)"
                 R"("gpu_info_list": [)" +
                 gpu + "]}"),
            Errc::kOk);
}

// ---- Global options

TEST_F(CommandsTest, ResultsGoToAFileWhenAsked) {
  fixed_partition(kFirst, "training");
  const std::string path = directory_ + "/out.csv";
  EXPECT_EQ(shown("lp show --format csv --output " + path), "");
  EXPECT_EQ(must(os::read_file(path)), std::string("Id,State\n") + kFirst + ",READY\n");
  EXPECT_EQ(run("lp show --output " + directory_ + "/no/such/folder").status, kExitFailed);
}

TEST_F(CommandsTest, TheUrlMayComeFromTheEnvironment) {
  ::setenv("API_URL", url_.c_str(), 1);
  const Finished done = run_words({"version", "--format", "json"});
  ::unsetenv("API_URL");
  EXPECT_EQ(done.status, kExitOk) << done.err;
  EXPECT_EQ(Json::parse(done.out)["max_find_by_ids"], 100);
}

TEST_F(CommandsTest, TlsNeedsAuthorityCertificateAndKey) {
  const forge::TestAuthority authority("test authority");
  const auto controller = authority.issue("controller", "IP:127.0.0.1");
  const auto alice = authority.issue("ops-alice", "");
  const std::string ca = file("ca", authority.pem());
  const auto tls = must(forge::ForgeServer::start(
      {.listen = {"127.0.0.1:0"},
       .tls = net::TlsSources{.key = file("key", controller.key),
                              .certificate = file("cert", controller.certificate),
                              .authority = ca},
       .rules = {must(forge::parse_caller_rule("cn:ops-alice", forge::Role::kAdmin))}},
      admin()));
  url_ = "https://" + tls->addresses().at(0);
  const std::string identity = " --client-cert-path " + file("a.cert", alice.certificate) +
                               " --client-key-path " + file("a.key", alice.key);
  EXPECT_EQ(shown("--root-ca-path " + ca + identity + " nvlink-nmxc-endpoints show -f json"),
            "[]\n");
  const Finished nameless =
      run("--root-ca-path " + ca + " --timeout 5s nvlink-nmxc-endpoints show");
  EXPECT_EQ(nameless.status, kExitFailed);
  EXPECT_THAT(nameless.err, HasSubstr("imex-controller"));
  const Finished half = run("--client-cert-path " + ca + " version");
  EXPECT_EQ(half.status, kExitUsage);
  EXPECT_THAT(half.err, HasSubstr("without its key"));
  const Finished lost = run("--root-ca-path " + directory_ + "/none version");
  EXPECT_EQ(lost.status, kExitFailed);
  EXPECT_THAT(lost.err, HasSubstr("--root-ca-path"));
}

TEST_F(CommandsTest, WrongUseNamesWhatIsPossible) {
  const auto wrong = [&](const std::string& line) {
    const Finished done = run(line);
    EXPECT_EQ(done.status, kExitUsage) << line;
    return done.err;
  };
  EXPECT_THAT(wrong("partition show"),
              HasSubstr("no command 'partition' (invalid_argument); commands are"));
  EXPECT_THAT(wrong("lp"), HasSubstr("show, create, delete"));
  EXPECT_THAT(wrong("lp show --format xml"), HasSubstr("ascii-table"));
  EXPECT_THAT(wrong("lp show --timeout forever"), HasSubstr("250ms, 5s, 2m"));
  EXPECT_THAT(wrong("--api-url http://b:1 lp show"), HasSubstr("--api-url"));
  EXPECT_THAT(wrong(""), HasSubstr("which command?"));
  url_ = "controller:1079";
  EXPECT_THAT(wrong("lp show"), HasSubstr("https://HOST:PORT"));
}

TEST_F(CommandsTest, AControllerThatIsNotThereIsNamed) {
  server_.reset();
  const Finished done = run("lp show --timeout 5s");
  EXPECT_EQ(done.status, kExitFailed);
  EXPECT_THAT(done.err, AllOf(HasSubstr("see whether imex-controller runs"), HasSubstr(url_)));
}

TEST_F(CommandsTest, EveryCommandHasHelpWithAnExample) {
  std::function<void(CLI::App&, std::vector<std::string>)> visit =
      [&](CLI::App& app, const std::vector<std::string>& path) {
        std::vector<std::string> words = path;
        words.emplace_back("--help");
        const Finished help = run_words(words);
        EXPECT_EQ(help.status, kExitOk);
        EXPECT_THAT(help.out, HasSubstr("Example")) << app.get_name();
        for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
          if (sub->get_name().empty()) continue;
          std::vector<std::string> below = path;
          below.push_back(sub->get_name());
          visit(*sub, below);
        }
      };
  CommandTree tree;
  visit(tree.app(), {});
  EXPECT_THAT(run_words({"--version"}).out, StartsWith("imex "));
}

}  // namespace
}  // namespace imex::admin
