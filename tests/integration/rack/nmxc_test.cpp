// The real imex-rack over real gRPC: both dialects, restarts, faults of the transport, trays.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/file_view.hpp"
#include "rack_process.hpp"

namespace imex::rack {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
constexpr std::uint32_t kDefault = 32'766;

class RackNmxc : public testing::Test {
 protected:
  RackProcess rack;

  static std::vector<std::uint64_t> uids_of_slot(NmxcClient& client, std::uint64_t slot) {
    std::vector<std::uint64_t> uids;
    const auto listed = client.gpus();
    for (const auto& gpu : listed.gpu_info_list()) {
      if (gpu.loc().location().slot_id() == slot) uids.push_back(gpu.gpu_uid());
    }
    return uids;
  }
  static std::set<std::uint32_t> ids(NmxcClient& client) {
    std::set<std::uint32_t> found;
    const auto listed = client.partitions();
    for (const auto& partition : listed.partition_info_list())
      found.insert(partition.partition_id().partition_id());
    return found;
  }
};

TEST_F(RackNmxc, HelloThenPartitionsOfAnNvl72) {
  ASSERT_NO_FATAL_FAILURE(rack.start());
  NmxcClient client(rack.port());
  EXPECT_EQ(client.partitions().server_header().return_code(),
            ::nmx_c::NMX_ST_CONNECTION_NOT_VALID);
  const auto hello = client.hello();
  EXPECT_EQ(hello.server_header().return_code(), ::nmx_c::NMX_ST_SUCCESS);
  EXPECT_TRUE(Uuid::parse(hello.server_header().domain_uuid()));
  EXPECT_EQ(hello.major_version(), ::nmx_c::PROTO_MAJOR_CURRENT);
  const auto all = client.partitions();
  ASSERT_EQ(all.partition_info_list_size(), 1);
  EXPECT_EQ(all.partition_info_list(0).partition_id().partition_id(), kDefault);
  EXPECT_EQ(all.partition_info_list(0).gpu_uid_list_size(), 72);
  EXPECT_EQ(client.gpus().gpu_info_list_size(), 72);

  const auto uids = uids_of_slot(client, 3);
  ASSERT_THAT(uids, SizeIs(4));
  EXPECT_EQ(client.create("mine", uids).server_header().return_code(),
            ::nmx_c::NMX_ST_RESOURCE_IN_USE);
  EXPECT_EQ(client.take(kDefault, uids).server_header().return_code(), ::nmx_c::NMX_ST_SUCCESS);
  const auto made = client.create("mine", uids);
  EXPECT_EQ(made.server_header().return_code(), ::nmx_c::NMX_ST_SUCCESS);
  EXPECT_EQ(made.partition_id().partition_id(), 1U);
  EXPECT_EQ(ids(client), (std::set<std::uint32_t>{1, kDefault}));
}

TEST_F(RackNmxc, EveryReadAnswers) {
  ASSERT_NO_FATAL_FAILURE(rack.start());
  NmxcClient client(rack.port());
  client.hello();
  using Stub = NmxcClient::Stub;
  const auto properties =
      client.call(&Stub::GetDomainProperties, ::nmx_c::GetDomainPropertiesRequest());
  EXPECT_EQ(properties.max_compute_nodes(), 18U);
  EXPECT_EQ(properties.max_num_ports(), 2592U);
  EXPECT_EQ(properties.max_multicast_groups(), 1024U);
  const auto state = client.call(&Stub::GetDomainStateInfo, ::nmx_c::GetDomainStateInfoRequest());
  EXPECT_EQ(state.control_plane_state(), ::nmx_c::CONTROL_PLANE_STATE_CONFIGURED);
  EXPECT_EQ(state.available_multicast_groups(), 0U);
  const auto topology = client.call(&Stub::GetTopologyInfo, ::nmx_c::GetTopologyInfoRequest());
  std::size_t ports = 0;
  for (const auto& device : topology.device_topo_info()) {
    ports += static_cast<std::size_t>(device.has_gpu_topo_info()
                                          ? device.gpu_topo_info().port_topo_info_size()
                                          : device.switch_topo_info().port_topo_info_size());
  }
  EXPECT_EQ(topology.device_topo_info_size(), 90);
  EXPECT_EQ(ports, 2592U);
  ::nmx_c::GetComputeNodeCountRequest count;
  EXPECT_EQ(client.call(&Stub::GetComputeNodeCount, count).server_header().return_code(),
            ::nmx_c::NMX_ST_BADPARAM)
      << "attr 0";
  count.set_attr(::nmx_c::COMPUTE_NODE_ATTR_FULLY_ALLOCATED);
  EXPECT_EQ(client.call(&Stub::GetComputeNodeCount, count).num_nodes(), 18U);
  ::nmx_c::GetComputeNodeLocationListRequest locations;
  locations.set_attr(::nmx_c::COMPUTE_NODE_ATTR_ALL);
  locations.set_num_nodes(5);
  EXPECT_EQ(client.call(&Stub::GetComputeNodeLocationList, locations).loc_list_size(), 5);
  EXPECT_EQ(client.call(&Stub::GetComputeNodeInfoList, ::nmx_c::GetComputeNodeInfoListRequest())
                .node_info_list_size(),
            18);
  ::nmx_c::GetSwitchNodeCountRequest switches;
  switches.set_attr(::nmx_c::SWITCH_NODE_ATTR_L1);
  EXPECT_EQ(client.call(&Stub::GetSwitchNodeCount, switches).num_nodes(), 9U);
  ::nmx_c::GetSwitchNodeLocationListRequest places;
  places.set_attr(::nmx_c::SWITCH_NODE_ATTR_ALL);
  EXPECT_EQ(client.call(&Stub::GetSwitchNodeLocationList, places).loc_list(0).slot_id(), 9U);
  EXPECT_EQ(client.call(&Stub::GetSwitchNodeInfoList, ::nmx_c::GetSwitchNodeInfoListRequest())
                .node_info_list_size(),
            9);
  EXPECT_EQ(client.call(&Stub::GetSwitchInfoList, ::nmx_c::GetSwitchInfoListRequest())
                .switch_info_list_size(),
            18);
  ::nmx_c::GetPartitionCountRequest partitions;
  partitions.set_info_attr(::nmx_c::PARTITION_INFO_ATTR_BY_NUMBER_OF_GPUS);
  partitions.set_num_gpus(72);
  EXPECT_EQ(client.call(&Stub::GetPartitionCount, partitions).num_partitions(), 1U);
  ::nmx_c::GetPartitionIdListRequest listed;
  listed.set_info_attr(::nmx_c::PARTITION_INFO_ATTR_ALL);
  EXPECT_EQ(client.call(&Stub::GetPartitionIdList, listed).partition_list(0).num_gpus(), 72U);
  ::nmx_c::GetConnCountRequest connections;
  connections.set_conn_type(::nmx_c::CONN_TYPE_ALL);
  connections.set_conn_attr(::nmx_c::CONN_ATTR_EXPECTED_AND_ACTIVE);
  EXPECT_EQ(client.call(&Stub::GetConnCount, connections).num_conns(), 1296U);
  ::nmx_c::GetConnInfoListRequest listed_connections;
  listed_connections.set_conn_type(::nmx_c::CONN_TYPE_GPU_CONNECTIONS);
  listed_connections.set_conn_attr(::nmx_c::CONN_ATTR_DISCOVERED);
  listed_connections.set_num_conns(10);
  EXPECT_EQ(client.call(&Stub::GetConnInfoList, listed_connections)
                .conn_info_list()
                .conn_info_list_size(),
            10);
  EXPECT_EQ(client.call(&Stub::GetConnInfoCombined, ::nmx_c::GetConnInfoCombinedRequest())
                .server_header()
                .return_code(),
            ::nmx_c::NMX_ST_SUCCESS);
  ::nmx_c::GetStateReportRequest report;
  report.set_report_type(::nmx_c::REPORT_TYPE_PARTITIONS);
  EXPECT_EQ(client.call(&Stub::GetStateReport, report).partitions().partitions(0).gpus_size(), 72);
  ::nmx_c::GetStaticConfigRequest config;
  config.mutable_config_files()->add_config_file()->set_config_file_name("fm_config");
  EXPECT_THAT(client.call(&Stub::GetStaticConfig, config)
                  .static_config()
                  .config_file_contents()
                  .config_file_content(0)
                  .config_file_content(),
              HasSubstr("gb200_nvl72r1_c2g4_topology"));
  EXPECT_EQ(
      client.call(&Stub::GetAdminState, ::nmx_c::GetAdminStateRequest()).admin_state_entry_size(),
      0)
      << "no trunks";
}

TEST_F(RackNmxc, DraftDialectIsServedOnRequestOnly) {
  ASSERT_NO_FATAL_FAILURE(rack.start());
  NmxcClient current(rack.port());
  const auto draft_hello = [](const std::shared_ptr<grpc::Channel>& channel,
                              ::nmx_c::ServerHello& answer) {
    const auto stub = ::nmx_c::NMXController::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    ::nmx_c::ClientHello request;
    request.set_gateway_id("draft");
    request.set_major_version(::nmx_c::PROTO_MAJOR_DRAFT);
    return stub->Hello(&context, request, &answer);
  };
  ::nmx_c::ServerHello answer;
  EXPECT_EQ(draft_hello(current.channel(), answer).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  rack.kill();
  ASSERT_NO_FATAL_FAILURE(rack.start({"--personality", "draft", "--topology", "nvl36x2"}));
}

TEST_F(RackNmxc, DraftDialectDiffersInPortsAndAdminStates) {
  ASSERT_NO_FATAL_FAILURE(rack.start({"--personality", "draft", "--topology", "nvl36x2"}));
  const NmxcClient current(rack.port());
  const auto stub = ::nmx_c::NMXController::NewStub(current.channel());
  const auto context = [] {
    auto made = std::make_unique<grpc::ClientContext>();
    made->set_deadline(std::chrono::system_clock::now() + kPatience);
    return made;
  };
  ::nmx_c::ClientHello hello;
  hello.set_gateway_id("draft");
  hello.set_major_version(::nmx_c::PROTO_MAJOR_DRAFT);
  ::nmx_c::ServerHello greeting;
  ASSERT_TRUE(stub->Hello(context().get(), hello, &greeting).ok());
  EXPECT_EQ(greeting.server_header().return_code(), ::nmx_c::NMX_ST_SUCCESS);
  EXPECT_EQ(greeting.minor_version(), ::nmx_c::PROTO_MINOR_DRAFT);
  ::nmx_c::GetTopologyInfoRequest ask;
  ask.set_gateway_id("draft");
  ::nmx_c::DraftFmTopologyInfo topology;
  ASSERT_TRUE(stub->GetTopologyInfo(context().get(), ask, &topology).ok());
  ASSERT_GT(topology.device_topo_info_size(), 0);
  EXPECT_EQ(topology.device_topo_info(0).switch_topo_info().port_topo_info(0).port_admin_state(),
            ::nmx_c::ADMIN_STATE_UP);
  ::nmx_c::DraftSetAdminStateRequest down;
  down.set_gateway_id("draft");
  down.set_admin_state(::nmx_c::ADMIN_STATE_DOWN);
  down.mutable_transceiver_identifier()->set_chassis_id(1);
  down.mutable_transceiver_identifier()->set_slot_id(5);
  down.mutable_transceiver_identifier()->set_transceiver_num(2);
  ::nmx_c::DraftSetAdminStateResponse set;
  ASSERT_TRUE(stub->SetAdminState(context().get(), down, &set).ok());
  EXPECT_EQ(set.server_header().return_code(), ::nmx_c::NMX_ST_SUCCESS);
  ::nmx_c::GetAdminStateRequest read;
  read.set_gateway_id("draft");
  *read.mutable_transceiver_identifier() = down.transceiver_identifier();
  ::nmx_c::DraftGetAdminStateResponse state;
  ASSERT_TRUE(stub->GetAdminState(context().get(), read, &state).ok());
  EXPECT_EQ(state.admin_state(), ::nmx_c::ADMIN_STATE_DOWN);
}

TEST_F(RackNmxc, PartitionsSurviveSigkill) {
  ASSERT_NO_FATAL_FAILURE(rack.start());
  std::string domain, instance;
  std::vector<std::uint64_t> uids;
  {
    NmxcClient client(rack.port());
    const auto hello = client.hello();
    domain = hello.server_header().domain_uuid();
    instance = hello.server_header().app_uuid();
    uids = uids_of_slot(client, 20);
    ASSERT_EQ(client.take(kDefault, uids).server_header().return_code(), ::nmx_c::NMX_ST_SUCCESS);
    ASSERT_EQ(client.create("kept", uids).server_header().return_code(), ::nmx_c::NMX_ST_SUCCESS);
  }
  ASSERT_NO_FATAL_FAILURE(rack.kill());
  ASSERT_NO_FATAL_FAILURE(rack.start());
  NmxcClient client(rack.port());
  EXPECT_EQ(client.partitions().server_header().return_code(), ::nmx_c::NMX_ST_CONNECTION_NOT_VALID)
      << "sessions end";
  const auto hello = client.hello();
  EXPECT_EQ(hello.server_header().domain_uuid(), domain);
  EXPECT_NE(hello.server_header().app_uuid(), instance);
  EXPECT_EQ(ids(client), (std::set<std::uint32_t>{1, kDefault}));
  EXPECT_EQ(uids_of_slot(client, 20), uids);
  EXPECT_EQ(rack.stop(), 0);
  ASSERT_NO_FATAL_FAILURE(rack.start({"--forget"}));
  NmxcClient fresh(rack.port());
  fresh.hello();
  EXPECT_EQ(ids(fresh), (std::set<std::uint32_t>{kDefault})) << "forgotten, as asked";
}

TEST_F(RackNmxc, TrayFilesAreWhatADaemonReads) {
  ASSERT_NO_FATAL_FAILURE(rack.start());
  NmxcClient client(rack.port());
  const std::string domain = client.hello().server_header().domain_uuid();
  const auto seen = [&](unsigned tray) {
    return fabric::parse_fabric_file(rack.tray_file(tray), "tray").value();
  };
  const auto before = seen(2);
  ASSERT_THAT(before, SizeIs(4));
  EXPECT_EQ(before[0].partition.domain_uuid.to_string(), domain);
  EXPECT_EQ(before[0].partition.clique_id, kDefault);
  EXPECT_TRUE(before[0].attached);
  const auto uids = uids_of_slot(client, 3);  // tray 2
  EXPECT_EQ(before[1].uid, uids[0]) << "NVML index 1 is module 1";
  client.take(kDefault, uids);
  EXPECT_FALSE(seen(2)[0].attached) << "at once";
  EXPECT_TRUE(seen(3)[0].attached);
  client.create("mine", uids);
  EXPECT_EQ(seen(2)[0].partition.clique_id, kDefault) << "until a reset";
  ASSERT_TRUE(rack.control().reset_gpu("rack-0", 2, {}));
  EXPECT_EQ(seen(2)[0].partition.clique_id, 1U);
  EXPECT_TRUE(seen(2)[0].attached);
  ASSERT_TRUE(rack.control().set_fault({.kind = "gpu-missing", .tray = 2, .gpu = 1}));
  EXPECT_THAT(seen(2), SizeIs(3));
}

TEST_F(RackNmxc, SubscribersHearOfOthersAndOfFaults) {
  ASSERT_NO_FATAL_FAILURE(rack.start());
  NmxcClient listener(rack.port(), "listener"), actor(rack.port(), "actor");
  listener.hello();
  actor.hello();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  ::nmx_c::SubscribeRequest request;
  request.set_gateway_id("listener");
  request.set_heart_beat_rate(1);
  const auto stream = listener.stub().Subscribe(&context, request);
  ::nmx_c::ServerNotification note;
  ASSERT_TRUE(stream->Read(&note));
  EXPECT_EQ(note.subscription_response().server_header().return_code(), ::nmx_c::NMX_ST_SUCCESS);
  listener.create("own", {});
  actor.create("theirs", {});
  ASSERT_TRUE(rack.control().set_fault({.kind = "link-down", .tray = 1, .gpu = 1, .link = 1}));
  bool change = false, topology = false, beat = false;
  while (!(change && topology && beat) && stream->Read(&note)) {
    if (note.has_create_partition_response()) {
      EXPECT_EQ(note.create_partition_response().partition_id().partition_id(), 2U)
          << "not of its own change";
      change = true;
    }
    topology = topology || note.fm_event().has_fm_event_topology_change();
    beat = beat || note.has_domain_state_info();
  }
  EXPECT_TRUE(change && topology && beat);
  ASSERT_TRUE(rack.control().set_fault({.kind = "controller-restart", .delay_ms = 1}));
  while (stream->Read(&note)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE)
      << "the stream ends with the controller";
}

TEST_F(RackNmxc, UnreachableRackComesBackOnItsPort) {
  ASSERT_NO_FATAL_FAILURE(rack.start({"--racks", "2"}));
  NmxcClient client(rack.port(0)), other(rack.port(1));
  client.hello();
  other.hello();
  ASSERT_TRUE(rack.control().set_fault({.kind = "unreachable", .domain = "rack-0"}));
  ::nmx_c::GetPartitionInfoListRequest request;
  ::nmx_c::GetPartitionInfoListResponse answer;
  EXPECT_EQ(client.try_call(&NmxcClient::Stub::GetPartitionInfoList, request, answer).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(other.partitions().partition_info_list_size(), 1) << "other racks are unaffected";
  EXPECT_EQ(rack.control().clear_faults("rack-0", "unreachable").value(), 1U);
  EXPECT_TRUE(eventually([&] {
    return client.try_call(&NmxcClient::Stub::GetPartitionInfoList, request, answer).ok();
  }));
}

TEST_F(RackNmxc, BlackHoleAndSlow) {
  ASSERT_NO_FATAL_FAILURE(rack.start());
  NmxcClient client(rack.port());
  client.hello();
  ASSERT_TRUE(rack.control().set_fault(
      {.kind = "black-hole", .count = 1, .method = "GetPartitionInfoList"}));
  ::nmx_c::GetPartitionInfoListRequest request;
  ::nmx_c::GetPartitionInfoListResponse answer;
  EXPECT_EQ(client
                .try_call(&NmxcClient::Stub::GetPartitionInfoList, request, answer,
                          std::chrono::milliseconds(300))
                .error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(client.partitions().partition_info_list_size(), 1) << "only one call";
  ASSERT_TRUE(rack.control().set_fault({.kind = "slow", .count = 1, .delay_ms = 300}));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(client.partitions().partition_info_list_size(), 1);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(300));
  // A call that hangs must not hold up the end of the process.
  ASSERT_TRUE(rack.control().set_fault({.kind = "black-hole"}));
  EXPECT_EQ(client
                .try_call(&NmxcClient::Stub::GetPartitionInfoList, request, answer,
                          std::chrono::milliseconds(100))
                .error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(rack.stop(), 0);
}

TEST_F(RackNmxc, FailoverAndSplitShowTheSameDomainElsewhere) {
  ASSERT_NO_FATAL_FAILURE(rack.start());
  NmxcClient primary(rack.port());
  const auto before = primary.hello().server_header();
  ASSERT_TRUE(rack.control().set_fault({.kind = "failover"}));
  NmxcClient moved(rack.status()["standby_port"].get<std::uint16_t>());
  const auto after = moved.hello().server_header();
  EXPECT_EQ(after.domain_uuid(), before.domain_uuid());
  EXPECT_NE(after.app_uuid(), before.app_uuid());
  EXPECT_EQ(rack.status()["serving_ports"].size(), 1U);
  EXPECT_EQ(rack.control().clear_faults("", "").value(), 1U);
  ASSERT_TRUE(rack.control().set_fault({.kind = "split"}));
  EXPECT_EQ(rack.status()["serving_ports"].size(), 2U);
  NmxcClient again(rack.port()), second(rack.status()["standby_port"].get<std::uint16_t>());
  const auto one = again.hello().server_header(), two = second.hello().server_header();
  EXPECT_EQ(one.domain_uuid(), two.domain_uuid());
  EXPECT_NE(one.app_uuid(), two.app_uuid());
}

TEST_F(RackNmxc, InteropProfileHasWhatAPublicControllersTestsExpect) {
  ASSERT_NO_FATAL_FAILURE(rack.start({"--topology", "nvl36", "--personality", "interop"}));
  NmxcClient client(rack.port(), "libnmxc-test-gateway");
  const auto all = client.partitions();  // without Hello
  ASSERT_EQ(all.partition_info_list_size(), 1);
  EXPECT_EQ(all.partition_info_list(0).partition_id().partition_id(), kDefault);
  EXPECT_EQ(all.partition_info_list(0).num_gpus(), 36U);
  EXPECT_EQ(client.hello().server_header().return_code(), ::nmx_c::NMX_ST_SUCCESS);
  const auto gpus = client.gpus();
  for (int i = 0; i < 4; ++i) {
    const auto& gpu = gpus.gpu_info_list(i);
    EXPECT_EQ(gpu.gpu_uid(), 1001U + static_cast<unsigned>(i));
    EXPECT_EQ(gpu.gpu_id(), static_cast<unsigned>(i) + 1);
    EXPECT_EQ(gpu.loc().chassis_serial_number(), "27XYX27000001");
    EXPECT_EQ(gpu.loc().location().slot_id(), 1U);
    EXPECT_EQ(gpu.loc().tray_index(), 1U);
  }
}

TEST_F(RackNmxc, ControlSaysWhatIsWrong) {
  ASSERT_NO_FATAL_FAILURE(rack.start());
  ControlClient control = rack.control();
  EXPECT_THAT(control.call("nonsense").error().message, HasSubstr("not a request"));
  EXPECT_THAT(control.call(R"({"op":"fly"})").error().message, HasSubstr("fault-set"));
  EXPECT_EQ(control.set_fault({.kind = "link-dow"}).error().code, Errc::kInvalidArgument);
  EXPECT_THAT(control.set_fault({.kind = "link-dow"}).error().hint, HasSubstr("link-down"));
  EXPECT_EQ(control.set_fault({.kind = "slow", .domain = "rack-7"}).error().code, Errc::kNotFound);
  EXPECT_THAT(control.call(R"({"op":"fault-set","kind":"slow","wher":1})").error().message,
              HasSubstr("wher"));
  EXPECT_EQ(control.clear_fault("rack-0", 99).error().code, Errc::kNotFound);
  EXPECT_EQ(nlohmann::json::parse(control.call(R"({"op":"fault-kinds"})").value())["kinds"].size(),
            52U);
}

}  // namespace
}  // namespace imex::rack
