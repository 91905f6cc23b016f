// The manager of the real imex-rack over HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/http/client.hpp"
#include "rack_process.hpp"

namespace imex::rack {
namespace {

using nlohmann::json;
namespace http = net::http;

class RackNmxm : public testing::Test {
 protected:
  void start(std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.end(),
                     {"--nmxm-listen", "127.0.0.1:0", "--set", "default-partition=absent"});
    ASSERT_NO_FATAL_FAILURE(rack.start(arguments));
    http::ClientOptions options;
    options.url = "http://127.0.0.1:" + std::to_string(rack.ready()["manager_port"].get<int>());
    options.basic_user = "rw-user";
    options.basic_password = log::Secret("rw-password");
    client = http::Client::make(options).value();
  }
  http::ClientResponse ask(http::Method method, const std::string& path,
                           const std::string& body = {}) {
    return client
        ->send({.method = method, .path = path, .body = body},
               std::chrono::steady_clock::now() + kPatience)
        .value();
  }
  json get(const std::string& path) {
    const auto answer = ask(http::Method::kGet, path);
    EXPECT_EQ(answer.status, 200U) << answer.body;
    return json::parse(answer.body);
  }

  RackProcess rack;
  std::unique_ptr<http::Client> client;
};

TEST_F(RackNmxm, PartitionsThroughOperationsReachTheController) {
  ASSERT_NO_FATAL_FAILURE(start({"--racks", "2"}));
  EXPECT_EQ(get("/nmx/v1/gpus/count")["total"], 144);
  const json gpu = get("/nmx/v1/gpus?limit=1")[0];
  const auto accepted = ask(http::Method::kPost, "/nmx/v1/partitions",
                            json{{"Name", "a"}, {"Members", {gpu["ID"]}}}.dump());
  ASSERT_EQ(accepted.status, 202U) << accepted.body;
  const std::string location(accepted.headers.find("Location").value());
  EXPECT_TRUE(eventually([&] { return get(location)["Status"] == "completed"; }));
  NmxcClient controller(rack.port());
  controller.hello();
  const auto partitions = controller.partitions();
  ASSERT_EQ(partitions.partition_info_list_size(), 1);
  EXPECT_EQ(partitions.partition_info_list(0).gpu_uid_list(0),
            gpu["DeviceUID"].get<std::uint64_t>());
}

TEST_F(RackNmxm, OperationsEndWithoutAnybodyAsking) {
  ASSERT_NO_FATAL_FAILURE(start());
  const json gpu = get("/nmx/v1/gpus?limit=1")[0];
  ASSERT_EQ(ask(http::Method::kPost, "/nmx/v1/partitions",
                json{{"Name", "a"}, {"Members", {gpu["ID"]}}}.dump())
                .status,
            202U);
  EXPECT_TRUE(eventually([&] { return rack.status()["partitions"] == 1; }))
      << "behind the client's back";
}

TEST_F(RackNmxm, FaultsOfTheManagerComeThroughTheControlSocket) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(rack.control().set_fault({.kind = "gateway-error", .count = 1}));
  EXPECT_EQ(ask(http::Method::kGet, "/nmx/v1/gpus").status, 502U);
  EXPECT_EQ(ask(http::Method::kGet, "/nmx/v1/gpus/count").status, 200U);
  const auto id = rack.control().set_fault({.kind = "auth-expired"}).value();
  EXPECT_EQ(ask(http::Method::kGet, "/nmx/v1/gpus").status, 401U);
  ASSERT_TRUE(rack.control().clear_manager_fault(id));
  ASSERT_TRUE(rack.control().set_fault({.kind = "unreachable"}));
  EXPECT_EQ(get("/nmx/v1/services")[0]["Status"], "UNREACHABLE");
}

}  // namespace
}  // namespace imex::rack
