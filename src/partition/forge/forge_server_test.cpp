// The service on real sockets: who may call what, and what errors become on the wire.
#include "partition/forge/forge_server.hpp"

#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>

#include <forge/forge.grpc.pb.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include "administration_kit.hpp"
#include "os/file.hpp"
#include "os/random.hpp"
#include "test_certificates.hpp"

namespace imex::partition::forge {
namespace {

namespace pb = ::forge;
using partition::testing::must;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Code = grpc::StatusCode;

constexpr const char* kAgentName = "spiffe://site.example/default/sa/site-agent";
constexpr auto kLimit = std::chrono::seconds(20);

class ForgeServerTest : public AdministrationTest {
 protected:
  void SetUp() override {
    AdministrationTest::SetUp();
    directory_ = must(os::make_temporary_directory("imex-forge-"));
  }
  void TearDown() override {
    server_.reset();
    EXPECT_TRUE(os::remove_tree(directory_));
    AdministrationTest::TearDown();
  }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }
  Result<void> start(const ForgeServerOptions& options) {
    auto started = ForgeServer::start(options, admin(), [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      log_.emplace_back(line);
    });
    if (!started) return fail(std::move(started).error());
    server_ = std::move(*started);
    return {};
  }
  std::vector<std::string> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  void start_local() {
    must(start({.listen = {"127.0.0.1:0"}, .trust_local = true}));
    stub_ = pb::Forge::NewStub(
        grpc::CreateChannel(server_->addresses().at(0), grpc::InsecureChannelCredentials()));
  }
  void start_tls(bool trust_local = false) {
    const auto pair = authority_.issue("controller", "DNS:localhost,IP:127.0.0.1");
    must(start(
        {.listen = {"127.0.0.1:0"},
         .tls = net::TlsSources{.key = file("key", pair.key),
                                .certificate = file("cert", pair.certificate),
                                .authority = file("ca", authority_.pem())},
         .trust_local = trust_local,
         .rules = {must(parse_caller_rule("cn:ops-*", Role::kAdmin)),
                   must(parse_caller_rule(std::string("san:") + kAgentName, Role::kSiteAgent))}}));
  }
  /// A client with a certificate of its own; without one if `pair` is null.
  std::unique_ptr<pb::Forge::Stub> client(const TestAuthority::Pair* pair) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = authority_.pem();
    if (pair != nullptr) {
      options.pem_private_key = pair->key;
      options.pem_cert_chain = pair->certificate;
    }
    return pb::Forge::NewStub(
        grpc::CreateChannel(server_->addresses().at(0), grpc::SslCredentials(options)));
  }

  template <class Method, class Request, class Reply>
  static grpc::Status call(pb::Forge::Stub& stub, Method method, const Request& request,
                           Reply& reply) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kLimit);
    return (stub.*method)(&context, request, &reply);
  }
  template <class Method, class Request, class Reply>
  grpc::Status ask(Method method, const Request& request, Reply& reply) {
    return call(*stub_, method, request, reply);
  }
  static Code list_endpoints(pb::Forge::Stub& stub) {
    pb::NvlinkNmxcEndpointList list;
    return call(stub, &pb::Forge::Stub::ListNvlinkNmxcEndpoints, google::protobuf::Empty(), list)
        .error_code();
  }
  static Code list_partitions(pb::Forge::Stub& stub) {
    pb::NVLinkLogicalPartitionIdList list;
    return call(stub, &pb::Forge::Stub::FindNVLinkLogicalPartitionIds,
                pb::NVLinkLogicalPartitionSearchFilter(), list)
        .error_code();
  }
  static Code version(pb::Forge::Stub& stub) {
    pb::BuildInfo info;
    return call(stub, &pb::Forge::Stub::Version, pb::VersionRequest(), info).error_code();
  }

  std::string directory_;
  TestAuthority authority_{"test authority"};
  std::unique_ptr<ForgeServer> server_;
  std::unique_ptr<pb::Forge::Stub> stub_;
  std::mutex mutex_;
  std::vector<std::string> log_;
};

// ---- Who may call

TEST_F(ForgeServerTest, OperatorsMayDoAll) {
  start_tls();
  const auto pair = authority_.issue("ops-alice", "");
  const auto stub = client(&pair);
  EXPECT_EQ(version(*stub), Code::OK);
  EXPECT_EQ(list_partitions(*stub), Code::OK);
  EXPECT_EQ(list_endpoints(*stub), Code::OK);
  pb::NvlinkNmxcEndpoint endpoint;
  endpoint.set_chassis_serial("CH1");
  endpoint.set_endpoint("http://a:1");
  pb::NvlinkNmxcEndpoint made;
  ASSERT_TRUE(call(*stub, &pb::Forge::Stub::CreateNvlinkNmxcEndpoint, endpoint, made).ok());
  EXPECT_EQ(audit().front().actor, "cn:ops-alice") << "the audit log names the certificate";
}

TEST_F(ForgeServerTest, TheSiteAgentHasPartitionsAlone) {
  start_tls();
  const auto pair = authority_.issue("agent", std::string("URI:") + kAgentName);
  const auto stub = client(&pair);
  EXPECT_EQ(list_partitions(*stub), Code::OK);
  EXPECT_EQ(list_endpoints(*stub), Code::PERMISSION_DENIED);
  EXPECT_THAT(log(), Contains(HasSubstr("ListNvlinkNmxcEndpoints")));
}

TEST_F(ForgeServerTest, CertificatesThatNoRuleKnowsGetTheVersion) {
  start_tls();
  const auto pair = authority_.issue("somebody", "DNS:somewhere");
  const auto stub = client(&pair);
  EXPECT_EQ(version(*stub), Code::OK);
  EXPECT_EQ(list_partitions(*stub), Code::PERMISSION_DENIED);
  EXPECT_EQ(list_endpoints(*stub), Code::PERMISSION_DENIED);
}

// Not to be mistaken for a connection without certificate, which local callers have.
TEST_F(ForgeServerTest, ACertificateWithoutAnyNameGetsTheVersion) {
  start_tls(true);
  const auto pair = authority_.issue("", "");
  const auto stub = client(&pair);
  EXPECT_EQ(version(*stub), Code::OK);
  EXPECT_EQ(list_endpoints(*stub), Code::PERMISSION_DENIED);
}

TEST_F(ForgeServerTest, NoCertificateOrAForeignOneGetsNothing) {
  start_tls();
  const auto none = client(nullptr);
  EXPECT_EQ(version(*none), Code::UNAVAILABLE);
  const TestAuthority foreign("foreign authority");
  const auto pair = foreign.issue("ops-mallory", "");
  EXPECT_EQ(version(*client(&pair)), Code::UNAVAILABLE);
  const auto plain = pb::Forge::NewStub(
      grpc::CreateChannel(server_->addresses().at(0), grpc::InsecureChannelCredentials()));
  EXPECT_EQ(version(*plain), Code::UNAVAILABLE);
}

TEST_F(ForgeServerTest, PlaintextIsForLocalCallersAndOnlyWhenAllowed) {
  EXPECT_THAT(start({.listen = {"127.0.0.1:0"}}), FailsWith(Errc::kInvalidArgument, "without TLS"));
  EXPECT_THAT(start({.listen = {"0.0.0.0:0"}, .trust_local = true}),
              FailsWith(Errc::kInvalidArgument, "without TLS"));
  EXPECT_THAT(start({.listen = {}}), FailsWith(Errc::kInvalidArgument, "no address"));
  start_local();
  EXPECT_EQ(list_endpoints(*stub_), Code::OK);
}

TEST_F(ForgeServerTest, UnixSocketsServeLocalCallers) {
  must(start({.listen = {"unix:" + directory_ + "/forge.sock"}, .trust_local = true}));
  stub_ = pb::Forge::NewStub(
      grpc::CreateChannel(server_->addresses().at(0), grpc::InsecureChannelCredentials()));
  EXPECT_EQ(list_endpoints(*stub_), Code::OK);
}

TEST_F(ForgeServerTest, AnAddressThatIsTakenIsAnError) {
  start_local();
  const auto second =
      ForgeServer::start({.listen = server_->addresses(), .trust_local = true}, admin());
  EXPECT_THAT(second, FailsWith(Errc::kUnavailable, "cannot listen"));
}

// ---- What errors become

TEST_F(ForgeServerTest, LogicalPartitionsMakeTheirRound) {
  start_local();
  pb::NVLinkLogicalPartitionCreationRequest create;
  create.mutable_config()->set_tenant_organization_id("acme");
  create.mutable_config()->mutable_metadata()->set_name("training");
  create.mutable_config()->mutable_metadata()->set_description("of the vision team");
  pb::NVLinkLogicalPartition made;
  ASSERT_TRUE(ask(&pb::Forge::Stub::CreateNVLinkLogicalPartition, create, made).ok());
  EXPECT_EQ(made.status().state(), pb::READY);
  EXPECT_EQ(made.config().metadata().description(), "of the vision team");
  EXPECT_THAT(made.config_version(), HasSubstr("V1-T"));
  EXPECT_GT(made.created().seconds(), 0);

  pb::NVLinkLogicalPartitionUpdateRequest update;
  *update.mutable_id() = made.id();
  *update.mutable_config() = made.config();
  update.mutable_config()->mutable_metadata()->set_name("inference");
  update.set_if_version_match(made.config_version());
  pb::NVLinkLogicalPartitionUpdateResult updated;
  ASSERT_TRUE(ask(&pb::Forge::Stub::UpdateNVLinkLogicalPartition, update, updated).ok());
  EXPECT_EQ(ask(&pb::Forge::Stub::UpdateNVLinkLogicalPartition, update, updated).error_code(),
            Code::FAILED_PRECONDITION);

  pb::TenantSearchQuery tenant;
  tenant.set_tenant_organization_id("acme");
  pb::NVLinkLogicalPartitionList list;
  ASSERT_TRUE(ask(&pb::Forge::Stub::NVLinkLogicalPartitionsForTenant, tenant, list).ok());
  ASSERT_EQ(list.partitions_size(), 1);
  EXPECT_EQ(list.partitions(0).config().metadata().name(), "inference");
  EXPECT_EQ(list.partitions(0).config().tenant_organization_id(), "acme");

  pb::NVLinkLogicalPartitionDeletionRequest remove;
  *remove.mutable_id() = made.id();
  pb::NVLinkLogicalPartitionDeletionResult removed;
  EXPECT_TRUE(ask(&pb::Forge::Stub::DeleteNVLinkLogicalPartition, remove, removed).ok());
  EXPECT_EQ(ask(&pb::Forge::Stub::DeleteNVLinkLogicalPartition, remove, removed).error_code(),
            Code::NOT_FOUND);
}

TEST_F(ForgeServerTest, LogicalPartitionErrorsHaveTheirCodes) {
  start_local();
  pb::NVLinkLogicalPartition made;
  const auto create = [&](const pb::NVLinkLogicalPartitionCreationRequest& request) {
    return ask(&pb::Forge::Stub::CreateNVLinkLogicalPartition, request, made);
  };
  pb::NVLinkLogicalPartitionCreationRequest request;
  EXPECT_EQ(create(request).error_code(), Code::INVALID_ARGUMENT);
  EXPECT_EQ(create(request).error_message(), "config is missing");
  request.mutable_config()->set_tenant_organization_id("acme");
  EXPECT_EQ(create(request).error_message(), "config.metadata is missing");
  request.mutable_config()->mutable_metadata();
  EXPECT_EQ(create(request).error_code(), Code::INVALID_ARGUMENT);
  EXPECT_EQ(create(request).error_message(), "the name is missing");
  request.mutable_config()->mutable_metadata()->set_name("p");
  request.mutable_id()->set_value("not a uuid");
  EXPECT_EQ(create(request).error_code(), Code::INVALID_ARGUMENT);
  request.clear_id();
  EXPECT_TRUE(create(request).ok());
  EXPECT_EQ(create(request).error_code(), Code::ALREADY_EXISTS);

  pb::NVLinkLogicalPartitionUpdateResult updated;
  pb::NVLinkLogicalPartitionUpdateRequest update;
  const auto change = [&] {
    return ask(&pb::Forge::Stub::UpdateNVLinkLogicalPartition, update, updated);
  };
  EXPECT_EQ(change().error_code(), Code::INVALID_ARGUMENT);
  EXPECT_EQ(change().error_message(), "id is missing");
  *update.mutable_id() = made.id();
  EXPECT_EQ(change().error_message(), "config is missing");
  update.mutable_config()->set_tenant_organization_id("umbrella");
  EXPECT_EQ(change().error_message(), "config.metadata is missing");
  update.mutable_config()->mutable_metadata()->set_name("q");
  EXPECT_EQ(change().error_code(), Code::INVALID_ARGUMENT) << "another tenant's";
  update.mutable_id()->set_value("99999999-0000-0000-0000-000000000000");
  EXPECT_EQ(change().error_code(), Code::NOT_FOUND);

  pb::NVLinkLogicalPartitionList list;
  pb::NVLinkLogicalPartitionsByIdsRequest none, many;
  EXPECT_EQ(ask(&pb::Forge::Stub::FindNVLinkLogicalPartitionsByIds, none, list).error_code(),
            Code::INVALID_ARGUMENT);
  for (int i = 0; i < 101; ++i) *many.add_partition_ids() = made.id();
  EXPECT_EQ(ask(&pb::Forge::Stub::FindNVLinkLogicalPartitionsByIds, many, list).error_code(),
            Code::INVALID_ARGUMENT);
  ready_instance(*find<LogicalPartition>({must(Uuid::parse(made.id().value()))}), "i");
  pb::NVLinkLogicalPartitionDeletionRequest remove;
  *remove.mutable_id() = made.id();
  pb::NVLinkLogicalPartitionDeletionResult removed;
  EXPECT_EQ(ask(&pb::Forge::Stub::DeleteNVLinkLogicalPartition, remove, removed).error_code(),
            Code::INVALID_ARGUMENT)
      << "in use";
}

TEST_F(ForgeServerTest, PhysicalPartitionsCarryTheFabricsIdUnderItsOldName) {
  const auto logical = partition("p");
  must(store().write(kOperator, [&](WriteTransaction& t) {
    return t.put_physical({.domain = world_.domain,
                           .fabric_id = 7,
                           .partition = logical.id,
                           .tenant = logical.tenant,
                           .name = "p,1000"});
  }));
  start_local();
  pb::NVLinkPartitionSearchFilter filter;
  filter.set_tenant_organization_id("acme");
  pb::NVLinkPartitionIdList ids;
  ASSERT_TRUE(ask(&pb::Forge::Stub::FindNVLinkPartitionIds, filter, ids).ok());
  ASSERT_EQ(ids.partition_ids_size(), 1);
  pb::NVLinkPartitionsByIdsRequest request;
  *request.mutable_partition_ids() = ids.partition_ids();
  pb::NVLinkPartitionList list;
  ASSERT_TRUE(ask(&pb::Forge::Stub::FindNVLinkPartitionsByIds, request, list).ok());
  EXPECT_EQ(list.partitions(0).nmx_m_id(), "7");
  EXPECT_EQ(list.partitions(0).domain_uuid().value(), world_.domain.to_string());
  EXPECT_EQ(list.partitions(0).logical_partition_id().value(), logical.id.to_string());
  pb::TenantSearchQuery tenant;
  tenant.set_tenant_organization_id("umbrella");
  pb::NVLinkPartitionList others;
  ASSERT_TRUE(ask(&pb::Forge::Stub::NVLinkPartitionsForTenant, tenant, others).ok());
  EXPECT_EQ(others.partitions_size(), 0);
}

TEST_F(ForgeServerTest, EndpointErrorsHaveTheirCodes) {
  start_local();
  pb::NvlinkNmxcEndpoint endpoint, made;
  const auto create = [&] {
    return ask(&pb::Forge::Stub::CreateNvlinkNmxcEndpoint, endpoint, made).error_code();
  };
  const auto update = [&] {
    return ask(&pb::Forge::Stub::UpdateNvlinkNmxcEndpoint, endpoint, made).error_code();
  };
  EXPECT_EQ(create(), Code::INVALID_ARGUMENT);
  endpoint.set_chassis_serial("CH1");
  EXPECT_EQ(create(), Code::INVALID_ARGUMENT);
  endpoint.set_endpoint("https://10.0.0.1:9370");
  EXPECT_EQ(update(), Code::NOT_FOUND);
  EXPECT_EQ(create(), Code::OK);
  EXPECT_EQ(made.endpoint(), "https://10.0.0.1:9370");
  EXPECT_EQ(create(), Code::ALREADY_EXISTS);
  EXPECT_EQ(update(), Code::OK);
  pb::DeleteNvlinkNmxcEndpointRequest remove;
  google::protobuf::Empty nothing;
  const auto gone = [&] {
    return ask(&pb::Forge::Stub::DeleteNvlinkNmxcEndpoint, remove, nothing).error_code();
  };
  EXPECT_EQ(gone(), Code::INVALID_ARGUMENT);
  remove.set_chassis_serial("CH1");
  EXPECT_EQ(gone(), Code::OK);
  EXPECT_EQ(gone(), Code::NOT_FOUND);
}

TEST_F(ForgeServerTest, PasswordsReachNeitherLogNorErrors) {
  start_local();
  pb::CredentialCreationRequest request;
  request.set_credential_type(pb::NmxM);
  request.set_username("nico");
  request.set_password("correct horse");
  pb::CredentialCreationResult result;
  const grpc::Status refused = ask(&pb::Forge::Stub::CreateCredential, request, result);
  EXPECT_EQ(refused.error_code(), Code::FAILED_PRECONDITION) << "no NMX-M endpoint yet";
  EXPECT_THAT(refused.error_message(), Not(HasSubstr("correct horse")));
  const Endpoint nmxm{.id = {os::random_uuid()},
                      .site = world_.site.id,
                      .protocol = FabricProtocol::kNmxM,
                      .url = "https://nmx-m"};
  must(insert(nmxm));
  EXPECT_TRUE(ask(&pb::Forge::Stub::CreateCredential, request, result).ok());
  EXPECT_EQ(must(store().credentials(nmxm.id)).password.reveal(), "correct horse");
  for (const std::string& line : log()) EXPECT_THAT(line, Not(HasSubstr("correct horse")));
  request.set_credential_type(pb::UFM);
  const grpc::Status other = ask(&pb::Forge::Stub::CreateCredential, request, result);
  EXPECT_EQ(other.error_code(), Code::UNIMPLEMENTED);
  EXPECT_THAT(other.error_message(), HasSubstr("type UFM"));
  pb::CredentialDeletionRequest remove;
  remove.set_credential_type(pb::NmxM);
  remove.set_username("nico");
  pb::CredentialDeletionResult removed;
  EXPECT_TRUE(ask(&pb::Forge::Stub::DeleteCredential, remove, removed).ok());
  EXPECT_EQ(ask(&pb::Forge::Stub::DeleteCredential, remove, removed).error_code(), Code::NOT_FOUND);
}

TEST_F(ForgeServerTest, MachinesShowStoredAndObservedPlaces) {
  start_local();
  pb::MachinesByIdsRequest request;
  request.add_machine_ids()->set_id(partition::testing::machine_of(1).text);
  pb::MachineList list;
  ASSERT_TRUE(ask(&pb::Forge::Stub::FindMachinesByIds, request, list).ok());
  ASSERT_EQ(list.machines_size(), 1);
  const pb::Machine& machine = list.machines(0);
  EXPECT_EQ(machine.id().id(), "CH1.2.1");
  EXPECT_EQ(machine.nvlink_info().chassis_serial(), "CH1");
  EXPECT_EQ(machine.nvlink_info().domain_uuid().value(), world_.domain.to_string());
  ASSERT_EQ(machine.nvlink_info().gpus_size(), 4);
  EXPECT_EQ(machine.nvlink_info().gpus(0).guid(), 1004U);
  EXPECT_EQ(machine.nvlink_info().gpus(0).device_id(), 1);
  EXPECT_EQ(machine.nvlink_info().gpus(0).tray_index(), 1);
  EXPECT_EQ(machine.nvlink_status_observation().gpu_status_size(), 4);
  EXPECT_EQ(machine.status().nvlink_info().gpus_size(), 4);
}

TEST_F(ForgeServerTest, MachineErrorsHaveTheirCodes) {
  start_local();
  pb::UpdateMachineNvLinkInfoRequest update;
  google::protobuf::Empty nothing;
  const auto change = [&] {
    return ask(&pb::Forge::Stub::UpdateMachineNvLinkInfo, update, nothing).error_code();
  };
  EXPECT_EQ(change(), Code::INVALID_ARGUMENT);
  update.mutable_machine_id()->set_id("unknown");
  update.mutable_nvlink_info()->set_chassis_serial("CH1");
  pb::NVLinkGpu& gpu = *update.mutable_nvlink_info()->add_gpus();
  gpu.set_device_id(1);
  gpu.set_guid(9000);
  EXPECT_EQ(change(), Code::NOT_FOUND);
  update.mutable_machine_id()->set_id("CH1.1.1");
  EXPECT_EQ(change(), Code::OK);

  auto machine = *find<Machine>(partition::testing::machine_of(1));
  machine.instance_type = world_.type.id;
  must(this->update(machine));
  pb::AdminForceDeleteMachineRequest remove;
  remove.set_host_query(machine.id.text);
  pb::AdminForceDeleteMachineResponse removed;
  EXPECT_EQ(ask(&pb::Forge::Stub::AdminForceDeleteMachine, remove, removed).error_code(),
            Code::FAILED_PRECONDITION);
  machine.instance_type.reset();
  must(this->update(machine));
  ASSERT_TRUE(ask(&pb::Forge::Stub::AdminForceDeleteMachine, remove, removed).ok());
  EXPECT_TRUE(removed.all_done());
  EXPECT_EQ(removed.managed_host_machine_id(), machine.id.text);
}

TEST_F(ForgeServerTest, InstancesChangeAndAreReleased) {
  const auto first = partition("first"), second = partition("second");
  const auto instance = ready_instance(first, "i");
  start_local();
  pb::InstancesByIdsRequest request;
  request.add_instance_ids()->set_value(instance.id.to_string());
  pb::InstanceList list;
  ASSERT_TRUE(ask(&pb::Forge::Stub::FindInstancesByIds, request, list).ok());
  ASSERT_EQ(list.instances_size(), 1);
  EXPECT_EQ(list.instances(0).status().tenant().state(), pb::READY);
  EXPECT_EQ(list.instances(0).status().configs_synced(), pb::SYNCED);
  ASSERT_EQ(list.instances(0).status().nvlink().gpu_statuses_size(), 4);
  EXPECT_EQ(list.instances(0).status().nvlink().gpu_statuses(2).gpu_guid(), "1002");

  pb::InstanceConfigUpdateRequest update;
  update.mutable_instance_id()->set_value(instance.id.to_string());
  pb::Instance changed;
  const auto change = [&] {
    return ask(&pb::Forge::Stub::UpdateInstanceConfig, update, changed).error_code();
  };
  EXPECT_EQ(change(), Code::INVALID_ARGUMENT) << "no config";
  pb::InstanceNVLinkGpuConfig& gpu = *update.mutable_config()->mutable_nvlink()->add_gpu_configs();
  gpu.set_device_instance(0);
  gpu.mutable_logical_partition_id()->set_value(second.id.to_string());
  update.set_if_version_match(list.instances(0).config_version());
  EXPECT_EQ(change(), Code::OK);
  EXPECT_EQ(changed.status().configs_synced(), pb::PENDING);
  EXPECT_EQ(changed.status().tenant().state(), pb::CONFIGURING);
  ASSERT_EQ(changed.config().nvlink().gpu_configs_size(), 1);
  EXPECT_EQ(change(), Code::FAILED_PRECONDITION) << "the version has grown";

  pb::InstanceReleaseRequest release;
  release.mutable_id()->set_value(instance.id.to_string());
  release.mutable_issue()->set_category(pb::HARDWARE);
  release.mutable_issue()->set_summary("a fan is loud");
  pb::InstanceReleaseResult released;
  EXPECT_TRUE(ask(&pb::Forge::Stub::ReleaseInstance, release, released).ok());
  EXPECT_TRUE(ask(&pb::Forge::Stub::ReleaseInstance, release, released).ok());
  EXPECT_EQ(history(Kind::kInstance, instance.id.to_string()).at(0).message,
            "release requested: HARDWARE: a fan is loud");
  update.clear_if_version_match();
  EXPECT_EQ(change(), Code::INVALID_ARGUMENT) << "deletion was requested";
}

TEST_F(ForgeServerTest, BrowsingWithoutFabricClientsIsUnavailable) {
  must(admin().create_endpoint(kOperator, {"CH1", "http://a:1"}));
  start_local();
  pb::NmxcBrowseRequest request;
  pb::NmxcBrowseResponse answer;
  const auto browse = [&] {
    return ask(&pb::Forge::Stub::NmxcBrowse, request, answer).error_code();
  };
  EXPECT_EQ(browse(), Code::INVALID_ARGUMENT);
  request.set_chassis_serial("CH2");
  EXPECT_EQ(browse(), Code::NOT_FOUND);
  request.set_chassis_serial("CH1");
  EXPECT_EQ(browse(), Code::OK);
  EXPECT_EQ(answer.code(), 400) << "no operation";
  request.set_operation(pb::NMXC_BROWSE_OPERATION_GPU_INFO_LIST);
  EXPECT_EQ(browse(), Code::UNAVAILABLE);
}

// The fabric manager never answers: the server must not wait for it when it ends.
TEST_F(ForgeServerTest, EndingCallsOffWhatWaitsForAFabricManager) {
  must(admin().create_endpoint(kOperator, {"CH1", "http://a:1"}));
  std::atomic<bool> asked{false};
  administration_.emplace(
      store(), Administration::Options{
                   .site = world_.site.id,
                   .observe = [&](const Endpoint&,
                                  const fabric::CallOptions& call) -> Result<fabric::Snapshot> {
                     asked = true;
                     while (!call.cancel.stop_requested() &&
                            std::chrono::steady_clock::now() < call.deadline)
                       std::this_thread::sleep_for(std::chrono::milliseconds(5));
                     return fail(
                         call.cancel.stop_requested() ? Errc::kAborted : Errc::kDeadlineExceeded,
                         "called off");
                   }});
  start_local();
  grpc::Status status;
  std::thread client([&] {
    pb::NmxcBrowseRequest request;
    request.set_chassis_serial("CH1");
    request.set_operation(pb::NMXC_BROWSE_OPERATION_GPU_INFO_LIST);
    pb::NmxcBrowseResponse answer;
    status = ask(&pb::Forge::Stub::NmxcBrowse, request, answer);
  });
  while (!asked) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  server_.reset();
  client.join();
  EXPECT_EQ(status.error_code(), Code::ABORTED) << status.error_message();
}

TEST_F(ForgeServerTest, VersionTellsHowManyIdsFitOneRequest) {
  start_local();
  pb::VersionRequest request;
  pb::BuildInfo info;
  ASSERT_TRUE(ask(&pb::Forge::Stub::Version, request, info).ok());
  EXPECT_FALSE(info.build_version().empty());
  EXPECT_FALSE(info.has_runtime_config());
  request.set_display_config(true);
  ASSERT_TRUE(ask(&pb::Forge::Stub::Version, request, info).ok());
  EXPECT_EQ(info.runtime_config().max_find_by_ids(), 100U);
}

}  // namespace
}  // namespace imex::partition::forge
