#include "bench/control/request_load.hpp"

#include <atomic>

#include <gmock/gmock.h>

#include "net/http/server.hpp"

namespace imex::bench {
namespace {

using net::http::Method;
using net::http::Request;
using net::http::Response;
using testing::HasSubstr;

class RequestLoadTest : public testing::Test {
 protected:
  void serve(net::http::Handler handler) {
    net::http::Router router;
    router.add(Method::kPost, "/echo", std::move(handler));
    auto server = net::http::Server::start(
        {.listeners = {{.address = "127.0.0.1:0"}}, .threads = 2}, std::move(router));
    ASSERT_TRUE(server) << server.error().to_string();
    server_ = std::move(*server);
    options_.port = server_->port();
    options_.connections = 4;
    options_.time = std::chrono::milliseconds(50);
    options_.request = [](std::size_t connection, std::uint64_t number) {
      const std::string body = std::to_string(connection) + "." + std::to_string(number);
      return "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
             "\r\n\r\n" + body;
    };
  }
  std::unique_ptr<net::http::Server> server_;
  RequestLoadOptions options_;
};

TEST_F(RequestLoadTest, EveryAnswerIsOneSample) {
  std::atomic<std::uint64_t> asked = 0;
  serve([&](const Request& request) {
    ++asked;
    // Longer than one read of the client's.
    return Response::text(200, request.body + std::string(20'000, 'x'));
  });
  const auto load = run_request_load(options_);
  ASSERT_TRUE(load) << load.error().to_string();
  EXPECT_EQ(load->samples.size(), asked);
  EXPECT_GE(load->samples.size(), options_.connections);
  EXPECT_GT(load->per_second(), 0);
}

TEST_F(RequestLoadTest, AnotherStatusEndsItAndShowsTheAnswer) {
  serve([](const Request&) { return Response::text(409, "taken"); });
  const auto load = run_request_load(options_);
  ASSERT_FALSE(load);
  EXPECT_EQ(load.error().code, Errc::kDataLoss);
  EXPECT_THAT(load.error().message, HasSubstr("409"));
}

TEST_F(RequestLoadTest, IdleConnectionsStayOpen) {
  serve([](const Request&) { return Response::text(200, "ok"); });
  const auto sockets = open_idle_connections(options_, 20);
  ASSERT_TRUE(sockets) << sockets.error().to_string();
  EXPECT_EQ(sockets->size(), 20U);
  EXPECT_EQ(server_->counts().connections, 20U);
}

}  // namespace
}  // namespace imex::bench
