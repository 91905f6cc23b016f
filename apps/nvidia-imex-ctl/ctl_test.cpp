// The real program against a command service in this process: bytes, exit status, silence on
// standard error.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <imex/command/v1/command.grpc.pb.h>
#include <nlohmann/json.hpp>

#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::ctl {
namespace {

namespace pb = imex::command::v1;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

class FakeDaemon final : public pb::Command::Service {
 public:
  explicit FakeDaemon(const std::string& endpoint) {
    status.set_status(5);
    status.set_version("0.1.0");
    status.set_host_name("tray-0");
    auto* self = status.add_peers();
    self->set_host("127.88.5.1");
    self->set_address("127.88.5.1");
    self->set_state(7);
    grpc::ServerBuilder builder;
    builder.AddListeningPort(endpoint, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server = builder.BuildAndStart();
  }
  ~FakeDaemon() override { server->Shutdown(std::chrono::system_clock::now()); }
  grpc::Status GetStatus(grpc::ServerContext*, const pb::GetStatusRequest*,
                         pb::Status* out) override {
    *out = status;
    return grpc::Status::OK;
  }
  grpc::Status GetHealth(grpc::ServerContext*, const pb::GetHealthRequest*,
                         pb::Health* out) override {
    *out->mutable_status() = status;
    for (const auto& text : problems) out->add_problems(text);
    return grpc::Status::OK;
  }
  grpc::Status WatchStatus(grpc::ServerContext*, const pb::GetStatusRequest*,
                           grpc::ServerWriter<pb::Status>* writer) override {
    pb::Status now = status;
    for (const std::uint32_t step : steps) {
      now.set_status(step);
      writer->Write(now);
    }
    return grpc::Status::OK;
  }

  pb::Status status;
  std::vector<std::string> problems;
  std::vector<std::uint32_t> steps{0, 4, 5};
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

struct Outcome {
  int status = -1;
  std::string out, err;
};

class CtlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = os::make_temporary_directory("ctl");
    ASSERT_TRUE(made);
    folder = *made;
    socket = folder + "/c.sock";
  }
  void TearDown() override { EXPECT_TRUE(os::remove_tree(folder)); }

  Outcome run(std::vector<std::string> arguments) {
    const std::string out = folder + "/out", err = folder + "/err";
    const os::UniqueFd out_fd(::open(out.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    const os::UniqueFd err_fd(::open(err.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    os::Child::Options options;
    options.arguments = {IMEX_TEST_CTL};
    options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
    // Proxies of the environment are for the web, and must not come between.
    options.environment = {{"http_proxy", "http://127.0.0.1:9"}, {"TZ", "UTC"}};
    options.stdout_fd = out_fd.get();
    options.stderr_fd = err_fd.get();
    auto child = os::Child::start(options);
    EXPECT_TRUE(child);
    if (!child) return {};
    return {child->wait(20s).value_or(-1), *os::read_file(out), *os::read_file(err)};
  }
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder + "/" + name;
    EXPECT_TRUE(os::replace_file(path, std::as_bytes(std::span(text))));
    return path;
  }
  /// A configuration whose daemon has its socket at `socket`.
  std::string config() {
    const std::string list = write("nodes.cfg", "127.88.5.1\n");
    return write("imex.cfg", fmt::format("IMEX_NODE_CONFIG_FILE={}\nBIND_INTERFACE_IP=127.88.5.1\n"
                                         "IMEX_CMD_PORT=50996\nIMEX_CMD_UNIX_DOMAIN_PATH={}\n"
                                         "SOME_UNKNOWN_KEY=1\n",
                                         list, socket));
  }
  std::string folder, socket;
};

TEST_F(CtlTest, ReadyIsSixBytesAndNothingElse) {
  const FakeDaemon daemon("unix:" + socket);
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"-q", "--u=" + socket}, {"-q", "-u", socket}, {"-c", config(), "-q"}}) {
    const Outcome o = run(words);
    EXPECT_EQ(o.out, "READY\n");
    EXPECT_EQ(o.err, "");
    EXPECT_EQ(o.status, 0);
  }
}

TEST_F(CtlTest, AnyStatusIsAnAnswer) {
  FakeDaemon daemon("unix:" + socket);
  daemon.status.set_status(3);
  const Outcome o = run({"-q", "-u", socket});
  EXPECT_EQ(o.out, "WAITING_FOR_RECOVERY\n");
  EXPECT_EQ(o.status, 0);
}

TEST_F(CtlTest, NobodyThereIsUnavailableOnStandardOutputAndNonZero) {
  const Outcome o = run({"-c", config(), "-q"});
  EXPECT_EQ(o.out, "UNAVAILABLE\n");
  EXPECT_EQ(o.err, "");
  EXPECT_NE(o.status, 0);
}

TEST_F(CtlTest, AMissingNodeListIsNamedAsDcgmExpects) {
  const std::string path = write(
      "imex.cfg", "IMEX_NODE_CONFIG_FILE=" + folder + "/none\nBIND_INTERFACE_IP=127.88.5.9\n");
  for (const char* verb : {"-q", "-N"}) {
    const Outcome o = run({"-c", path, verb});
    EXPECT_THAT(o.out, HasSubstr("Failed to read node configuration file"));
    EXPECT_EQ(o.err, "");
    EXPECT_EQ(o.status, 66);
  }
}

TEST_F(CtlTest, ABadConfigurationIsReported) {
  const Outcome o = run({"-c", write("imex.cfg", "SERVER_PORT=none\n"), "-N"});
  EXPECT_THAT(o.err, HasSubstr("imex.cfg:1: SERVER_PORT"));
  EXPECT_EQ(o.status, 65);
}

TEST_F(CtlTest, TheDomainIsPrintedAsTextAndAsJson) {
  const FakeDaemon daemon("unix:" + socket);
  const Outcome text = run({"-N", "-c", config()});
  EXPECT_THAT(text.out,
              HasSubstr("Node #0   * 127.88.5.1    * - READY                - Version: 0.1.0\n"));
  EXPECT_THAT(text.out, ::testing::EndsWith("Domain State: UP\n"));
  EXPECT_EQ(text.status, 0);
  const Outcome json = run({"-N", "-j", "-H", "-u", socket});
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_EQ(parsed["status"], "UP");
  EXPECT_EQ(parsed["nodes"]["0"]["hostName"], "tray-0");
  EXPECT_EQ(json.status, 0);
}

TEST_F(CtlTest, AnAddressAndAPortAreAskedPastAnyProxy) {
  const FakeDaemon daemon("127.88.5.2:0");
  EXPECT_EQ(run({"-q", "-i", "127.88.5.2", std::to_string(daemon.port)}).out, "READY\n");
}

TEST_F(CtlTest, ASubscriptionEndsAtReady) {
  FakeDaemon daemon("unix:" + socket);
  const Outcome o = run({"-s", "-u", socket, "-t", "5000"});
  EXPECT_THAT(o.out, ::testing::StartsWith("INITIALIZING stopAtReady: 1 keepGoing: 1\n"));
  EXPECT_THAT(o.out,
              ::testing::EndsWith("READY stopAtReady: 1 keepGoing: 0\nFinishing subscription\n"));
  EXPECT_EQ(o.status, 0);
  daemon.steps = {0, 6};
  EXPECT_EQ(run({"-s", "-u", socket}).status, 1);
}

TEST_F(CtlTest, DeepStatusNamesProblemsAndFails) {
  FakeDaemon daemon("unix:" + socket);
  EXPECT_EQ(run({"-q", "--deep", "-u", socket}).out, "READY\n");
  daemon.problems = {"node 2 is silent"};
  const Outcome o = run({"-q", "--deep", "-u", socket});
  EXPECT_EQ(o.out, "READY\nnode 2 is silent\n");
  EXPECT_EQ(o.status, 1);
}

TEST_F(CtlTest, WrongUseExitsWith64AndSaysWhy) {
  const Outcome o = run({"-d"});
  EXPECT_EQ(o.status, 64);
  EXPECT_EQ(o.out, "");
  EXPECT_THAT(o.err, HasSubstr("-d"));
  EXPECT_THAT(run({"--help"}).out, HasSubstr("examples"));
  EXPECT_THAT(run({"--version"}).out, ::testing::StartsWith("imex "));
}

}  // namespace
}  // namespace imex::ctl
