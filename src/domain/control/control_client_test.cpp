// The client against a control service in this process, over a Unix socket.
#include "domain/control_client.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <imex/control/v1/control.grpc.pb.h>

#include "base/mutex.hpp"
#include "os/file.hpp"

namespace imex::domain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace pb = imex::control::v1;

/// Grants channel 7 to everyone but workloads named "full"; "slow" is answered after its deadline.
class FakeControl final : public pb::Control::Service {
 public:
  grpc::Status Grant(grpc::ServerContext* context, const pb::GrantRequest* request,
                     pb::GrantReply* reply) override {
    if (request->workload() == "full")
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "2047 of 2047 in use"};
    if (request->workload() == "slow") {
      const MutexLock lock(mutex_);
      while (!context->IsCancelled()) {
        static_cast<void>(cancelled_.wait_until(
            mutex_, std::chrono::steady_clock::now() + std::chrono::milliseconds(10)));
      }
      return grpc::Status::CANCELLED;
    }
    const MutexLock lock(mutex_);
    pb::Grant* grant = grants_.add_grants();
    grant->set_workload(request->workload());
    grant->set_channel(7);
    grant->set_path("/run/x/channels/channel7");
    grant->set_uid(request->has_uid() ? request->uid() : 1000);
    for (const auto uid : request->gpu_uids()) grant->add_gpu_uids(uid);
    for (const auto index : request->gpu_indexes()) grant->add_gpu_uids(100 + index);
    reply->set_channel(7);
    reply->set_path(grant->path());
    return grpc::Status::OK;
  }
  grpc::Status Release(grpc::ServerContext*, const pb::ReleaseRequest*,
                       pb::ReleaseReply*) override {
    const MutexLock lock(mutex_);
    grants_.clear_grants();
    return grpc::Status::OK;
  }
  grpc::Status List(grpc::ServerContext*, const pb::ListRequest*, pb::ListReply* reply) override {
    const MutexLock lock(mutex_);
    *reply = grants_;
    return grpc::Status::OK;
  }

 private:
  Mutex mutex_;
  CondVar cancelled_;
  pb::ListReply grants_ IMEX_GUARDED_BY(mutex_);
};

class ControlClientTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = os::make_temporary_directory("control");
    ASSERT_TRUE(made) << made.error().to_string();
    directory_ = *made;
    socket_ = directory_ + "/control.sock";
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket_, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
    static_cast<void>(os::remove_tree(directory_));
  }

  std::string directory_, socket_;
  FakeControl service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ControlClientTest, GrantAnswersWhatTheDaemonResolved) {
  auto client = ControlClient::connect(socket_);
  ASSERT_TRUE(client) << client.error().to_string();
  const auto grant =
      client->grant({.workload = "job-7", .gpu_uids = {}, .gpu_indexes = {0, 3}, .uid = 42});
  ASSERT_TRUE(grant) << grant.error().to_string();
  EXPECT_EQ(grant->channel, 7U);
  EXPECT_EQ(grant->path, "/run/x/channels/channel7");
  EXPECT_EQ(grant->uid, 42U);
  EXPECT_THAT(grant->gpu_uids, ElementsAre(100, 103));
}

TEST_F(ControlClientTest, ReleasedWorkloadIsNotListed) {
  auto client = ControlClient::connect(socket_);
  ASSERT_TRUE(client &&
              client->grant({.workload = "a", .gpu_uids = {}, .gpu_indexes = {}, .uid = {}}));
  ASSERT_EQ(client->list()->size(), 1U);
  ASSERT_TRUE(client->release("a"));
  EXPECT_TRUE(client->list()->empty());
}

TEST_F(ControlClientTest, RefusalKeepsCodeAndNamesTheWorkload) {
  auto client = ControlClient::connect(socket_);
  ASSERT_TRUE(client);
  const auto grant =
      client->grant({.workload = "full", .gpu_uids = {}, .gpu_indexes = {}, .uid = {}});
  ASSERT_FALSE(grant);
  EXPECT_EQ(grant.error().code, Errc::kResourceExhausted);
  EXPECT_THAT(grant.error().message, HasSubstr("'full': 2047 of 2047 in use"));
}

TEST_F(ControlClientTest, DaemonThatDoesNotAnswerEndsInTheDeadline) {
  auto client = ControlClient::connect(socket_, std::chrono::milliseconds(50));
  ASSERT_TRUE(client);
  const auto grant =
      client->grant({.workload = "slow", .gpu_uids = {}, .gpu_indexes = {}, .uid = {}});
  ASSERT_FALSE(grant);
  EXPECT_EQ(grant.error().code, Errc::kDeadlineExceeded);
}

TEST_F(ControlClientTest, PathLongerThanASocketAddressWorks) {
  const std::string deep = directory_ + "/" + std::string(120, 'd');
  std::filesystem::create_directory(deep);
  std::filesystem::rename(socket_, deep + "/control.sock");
  auto client = ControlClient::connect(deep + "/control.sock");
  ASSERT_TRUE(client) << client.error().to_string();
  const auto grants = client->list();
  EXPECT_TRUE(grants) << grants.error().to_string();
}

TEST_F(ControlClientTest, MissingSocketIsNotFound) {
  const auto client = ControlClient::connect(directory_ + "/none.sock");
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Errc::kNotFound);
}

TEST_F(ControlClientTest, SocketNobodyListensOnIsUnavailable) {
  const std::string dead = directory_ + "/dead.sock";
  ASSERT_TRUE(os::replace_file(dead, {}));
  auto client = ControlClient::connect(dead, std::chrono::milliseconds(500));
  ASSERT_TRUE(client);
  const auto grants = client->list();
  ASSERT_FALSE(grants);
  EXPECT_EQ(grants.error().code, Errc::kUnavailable);
  EXPECT_THAT(grants.error().hint, HasSubstr("imexd"));
}

}  // namespace
}  // namespace imex::domain
