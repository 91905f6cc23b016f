#include "net/http/server.hpp"

#include <unistd.h>

#include <gmock/gmock.h>

#include "base/mutex.hpp"
#include "os/file.hpp"
#include "os/socket.hpp"
#include "test_peer.hpp"

namespace imex::net::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kGetHello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";

Router small_router() {
  Router router;
  router.add(Method::kGet, "/hello", [](const Request&) { return Response::text(200, "hello"); });
  router.add(Method::kPost, "/echo/{word}", [](const Request& request) {
    std::string text(request.parameter("word"));
    for (const auto& [name, value] : request.query.items()) text += ";" + name + "=" + value;
    return Response::text(201, text + ";" + request.body);
  });
  router.add(Method::kGet, "/throws",
             [](const Request&) -> Response { throw std::runtime_error("a bug"); });
  router.add(Method::kGet, "/who",
             [](const Request& request) { return Response::text(200, request.peer.address); });
  return router;
}

std::unique_ptr<Server> start(ServerOptions options = {}, Router router = small_router()) {
  if (options.listeners.empty()) options.listeners = {{.address = "127.0.0.1:0"}};
  auto server = Server::start(std::move(options), std::move(router));
  EXPECT_TRUE(server) << server.error().to_string();
  return server ? std::move(*server) : nullptr;
}

TEST(HttpServerRoomTest, AnswersAndKeepsTheConnection) {
  const auto server = start();
  TestPeer peer(server->port());
  for (int i = 0; i < 3; ++i) {
    peer.say(kGetHello);
    const std::string answer = peer.hear_answer();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nDate: "));
    EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
    EXPECT_THAT(answer, EndsWith("\r\n\r\nhello"));
  }
}

TEST(HttpServerRoomTest, PipelinedRequestsAreAnsweredInOrder) {
  const auto server = start();
  TestPeer peer(server->port());
  std::string all;
  for (int i = 0; i < 20; ++i) {
    all +=
        "POST /echo/n" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
  }
  peer.say(all);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(peer.hear_answer(), EndsWith("\r\n\r\nn" + std::to_string(i) + ";abc"));
  }
}

TEST(HttpServerRoomTest, GivesParametersQueryAndChunkedBodies) {
  const auto server = start();
  TestPeer peer(server->port());
  peer.say(
      "POST /echo/a%2Fb%20c?x=1&y=%26+&x=2&z HTTP/1.1\r\nHost: a\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n");
  EXPECT_THAT(peer.hear_answer(), EndsWith("\r\n\r\na/b c;x=1;y=& ;x=2;z=;abcde"));
}

TEST(HttpServerRoomTest, ARequestInSingleBytesIsTheSame) {
  const auto server = start();
  TestPeer peer(server->port());
  for (const char c :
       std::string("POST /echo/w HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok")) {
    peer.say(std::string_view(&c, 1));
  }
  EXPECT_THAT(peer.hear_answer(), EndsWith("\r\n\r\nw;ok"));
}

TEST(HttpServerRoomTest, HeadHasTheLengthAndNoBody) {
  const auto server = start();
  TestPeer peer(server->port());
  peer.say("HEAD /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string answer = peer.hear_all();
  EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
}

TEST(HttpServerRoomTest, OldClientsAreClosedUnlessTheyAskOtherwise) {
  const auto server = start();
  TestPeer first(server->port());
  first.say("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_THAT(first.hear_all(), EndsWith("hello"));
  TestPeer second(server->port());
  second.say("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(second.hear_answer(), HasSubstr("Connection: keep-alive"));
}

TEST(HttpServerRoomTest, UnknownPathsAndMethodsAreToldApart) {
  ServerOptions options;
  options.error_body = [](unsigned status, std::string_view message) {
    return Response::json(status, "{\"message\":\"" + std::string(message) + "\"}");
  };
  const auto server = start(options);
  TestPeer peer(server->port());
  peer.say("GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string missing = peer.hear_all();
  EXPECT_THAT(missing, StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(missing, HasSubstr("Content-Type: application/json"));
  TestPeer other(server->port());
  other.say("DELETE /hello HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string refused = other.hear_all();
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(refused, HasSubstr("Allow: GET, HEAD\r\n"));
}

TEST(HttpServerRoomTest, AHandlerThatThrowsIsA500AndIsReported) {
  ServerOptions options;
  std::atomic<int> problems = 0;
  options.on_problem = [&](const Error& error) {
    EXPECT_THAT(error.message, HasSubstr("a bug"));
    ++problems;
  };
  const auto server = start(options);
  TestPeer peer(server->port());
  peer.say("GET /throws HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(peer.hear_answer(), AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("a bug"))));
  EXPECT_EQ(problems, 1);
  peer.say(kGetHello);
  EXPECT_THAT(peer.hear_answer(), EndsWith("hello"));
}

TEST(HttpServerRoomTest, AHundredContinueComesBeforeTheBody) {
  const auto server = start();
  TestPeer peer(server->port());
  peer.say("POST /echo/w HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(peer.hear_until("\r\n\r\n"), StartsWith("HTTP/1.1 100 "));
  peer.say("ok");
  EXPECT_THAT(peer.hear_answer(), EndsWith("w;ok"));
}

TEST(HttpServerRoomTest, AnswersCannotSmuggleHeaders) {
  Router router;
  router.add(Method::kGet, "/", [](const Request&) {
    Response response = Response::text(204, "unseen");
    response.headers.set("X-Name", "a\r\nX-Evil: 1");
    return response;
  });
  const auto server = start({}, std::move(router));
  TestPeer peer(server->port());
  peer.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string answer = peer.hear_all();
  EXPECT_THAT(answer, HasSubstr("X-Name: a  X-Evil: 1\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(answer, Not(HasSubstr("unseen")));
}

TEST(HttpServerRoomTest, ServesAUnixSocketBesideTcpAndKnowsWhoCame) {
  const auto folder = os::make_temporary_directory("imex-http-");
  ASSERT_TRUE(folder);
  const std::string path = *folder + "/rest.sock";
  ServerOptions options;
  options.listeners = {{.address = "unix:" + path}, {.address = "[::1]:0"}};
  Router router;
  router.add(Method::kGet, "/who", [](const Request& request) {
    return Response::text(
        200, request.peer.address + " " + std::to_string(request.peer.uid.value_or(9999)));
  });
  auto server = Server::start(std::move(options), std::move(router));
  ASSERT_TRUE(server) << server.error().to_string();
  EXPECT_EQ((*server)->port(0), 0);
  EXPECT_NE((*server)->port(1), 0);
  auto socket = os::connect_unix(path, std::chrono::seconds(5), os::UnixSocket::kStream);
  ASSERT_TRUE(socket) << socket.error().to_string();
  TestPeer peer(std::move(*socket));
  peer.say("GET /who HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(peer.hear_answer(), EndsWith("\r\n\r\nunix " + std::to_string(::getuid())));
  (*server)->stop(Nanos::zero());
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  EXPECT_TRUE(os::remove_tree(*folder));
}

TEST(HttpServerRoomTest, ATakenPortAndABadAddressAreErrors) {
  const auto server = start();
  ServerOptions same;
  same.listeners = {{.address = "127.0.0.1:" + std::to_string(server->port())}};
  const auto second = Server::start(std::move(same), small_router());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::kAlreadyExists) << second.error().to_string();
  for (const char* address : {"", "nowhere", "127.0.0.1", "127.0.0.1:x", "unix:"}) {
    ServerOptions bad;
    bad.listeners = {{.address = address}};
    const auto refused = Server::start(std::move(bad), small_router());
    ASSERT_FALSE(refused) << address;
    EXPECT_EQ(refused.error().code, Errc::kInvalidArgument) << refused.error().to_string();
  }
}

TEST(HttpServerRoomTest, TheObserverSeesEachExchange) {
  ServerOptions options;
  imex::Mutex mutex;
  std::vector<std::string> seen;
  options.observer = [&](const Exchange& exchange) {
    const MutexLock lock(mutex);
    seen.push_back(std::string(method_name(exchange.method)) + " " + std::string(exchange.route) +
                   " " + std::to_string(exchange.status) + " " +
                   std::to_string(exchange.request_bytes));
    EXPECT_GT(exchange.duration.count(), 0);
  };
  const auto server = start(options);
  TestPeer peer(server->port());
  peer.say("POST /echo/w HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok");
  static_cast<void>(peer.hear_answer());
  peer.say("GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
  static_cast<void>(peer.hear_all());
  EXPECT_TRUE(eventually([&] {
    const MutexLock lock(mutex);
    return seen.size() == 2;
  }));
  const MutexLock lock(mutex);
  EXPECT_THAT(seen, testing::ElementsAre("POST /echo/{word} 201 2", "GET  404 0"));
}

}  // namespace
}  // namespace imex::net::http
