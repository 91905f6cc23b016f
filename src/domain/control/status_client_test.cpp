// The client against a command service in this process, over a Unix socket.
#include "domain/status_client.hpp"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <imex/command/v1/command.grpc.pb.h>

#include "os/file.hpp"

namespace imex::domain {
namespace {

namespace pb = imex::command::v1;

class FakeCommand final : public pb::Command::Service {
 public:
  grpc::Status GetStatus(grpc::ServerContext*, const pb::GetStatusRequest*,
                         pb::Status* reply) override {
    *reply = status;
    return grpc::Status::OK;
  }
  grpc::Status GetHealth(grpc::ServerContext*, const pb::GetHealthRequest*,
                         pb::Health* reply) override {
    pb::ChannelUsage* use = reply->add_channels();
    use->set_channel(4);
    use->set_workload("job-7");
    use->set_export_bytes(1ULL << 40U);
    use->add_gpu_uids(11);
    return grpc::Status::OK;
  }
  pb::Status status;
};

class StatusClientTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = os::make_temporary_directory("status");
    ASSERT_TRUE(made) << made.error().to_string();
    directory_ = *made;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket(), grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    service_.status.set_status(static_cast<std::uint32_t>(DaemonStatus::kReady));
    service_.status.set_assigned_only(true);
    add_peer(0, "10.0.0.1", PairState::kConnected);
  }
  void TearDown() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
    static_cast<void>(os::remove_tree(directory_));
  }
  std::string socket() const { return directory_ + "/command.sock"; }
  void add_peer(std::uint32_t node, const std::string& address, PairState state) {
    pb::PeerStatus* peer = service_.status.add_peers();
    peer->set_node(node);
    peer->set_address(address);
    peer->set_state(static_cast<std::uint32_t>(state));
    peer->set_status(static_cast<std::uint32_t>(DaemonStatus::kReady));
  }
  std::string state() {
    const auto status = ask_status(socket(), std::chrono::seconds(10));
    EXPECT_TRUE(status) << status.error().to_string();
    return status ? std::string(status->domain_state()) : "";
  }

  std::string directory_;
  FakeCommand service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(StatusClientTest, AllAssignedSlotsConnectedIsUp) {
  add_peer(1, "10.0.0.2", PairState::kConnected);
  add_peer(2, "", PairState::kNeverConnected);
  EXPECT_EQ(state(), "UP");
}

TEST_F(StatusClientTest, UnassignedSlotsCountWhereTheDaemonSaysSo) {
  add_peer(1, "", PairState::kNeverConnected);
  service_.status.set_assigned_only(false);
  EXPECT_EQ(state(), "DEGRADED");
}

TEST_F(StatusClientTest, ALostPeerIsDegradedAndADaemonThatIsNotReadyIsDown) {
  add_peer(1, "10.0.0.2", PairState::kRecovering);
  EXPECT_EQ(state(), "DEGRADED");
  service_.status.set_status(static_cast<std::uint32_t>(DaemonStatus::kInitGpu));
  EXPECT_EQ(state(), "DOWN");
}

TEST_F(StatusClientTest, NumbersOfAnotherVersionAreNotTrusted) {
  service_.status.set_status(99);
  add_peer(1, "10.0.0.2", static_cast<PairState>(42));
  const auto status = ask_status(socket(), std::chrono::seconds(10));
  ASSERT_TRUE(status);
  EXPECT_EQ(status->status, DaemonStatus::kUnavailable);
  EXPECT_EQ(status->peers.back().state, PairState::kInvalid);
  add_peer(70'000, "10.0.0.3", PairState::kConnected);
  EXPECT_EQ(ask_status(socket(), std::chrono::seconds(10)).error().code, Errc::kDataLoss);
}

TEST_F(StatusClientTest, ChannelsComeWithTheirUse) {
  const auto channels = ask_channels(socket(), std::chrono::seconds(10));
  ASSERT_TRUE(channels) << channels.error().to_string();
  ASSERT_EQ(channels->size(), 1U);
  EXPECT_EQ(channels->front().channel, 4U);
  EXPECT_EQ(channels->front().workload, "job-7");
  EXPECT_EQ(channels->front().export_bytes, 1ULL << 40U);
  EXPECT_THAT(channels->front().gpu_uids, testing::ElementsAre(11));
}

}  // namespace
}  // namespace imex::domain
