#include "net/http/client.hpp"

#include <thread>

#include <gmock/gmock.h>

#include "net/http/server.hpp"
#include "os/file.hpp"
#include "os/socket.hpp"
#include "os/stream.hpp"
#include "test_peer.hpp"

namespace imex::net::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

auto soon() { return std::chrono::steady_clock::now() + kTestPatience; }

Router echo_router() {
  Router router;
  const auto echo = [](const Request& request) {
    Response response = Response::text(
        200, std::string(method_name(request.method)) + " " + request.target + " " + request.body);
    response.headers.set("X-Auth", std::string(request.headers.find("Authorization").value_or("")));
    return response;
  };
  for (const Method method :
       {Method::kGet, Method::kPost, Method::kPut, Method::kPatch, Method::kDelete}) {
    router.add(method, "/api/echo", echo);
  }
  router.add(Method::kGet, "/api/large",
             [](const Request&) { return Response::text(200, std::string(300'000, 'x')); });
  return router;
}

std::unique_ptr<Server> serve(Router router = echo_router(), ServerOptions options = {}) {
  options.listeners = {{.address = "127.0.0.1:0"}};
  auto server = Server::start(std::move(options), std::move(router));
  EXPECT_TRUE(server) << server.error().to_string();
  return server ? std::move(*server) : nullptr;
}

std::unique_ptr<Client> client_of(std::uint16_t port, ClientOptions options = {}) {
  if (options.url.empty()) options.url = "http://127.0.0.1:" + std::to_string(port) + "/api/";
  auto client = Client::make(std::move(options));
  EXPECT_TRUE(client) << client.error().to_string();
  return client ? std::move(*client) : nullptr;
}

/// A server that says one text to whoever connects, after it has read something.
class Liar {
 public:
  explicit Liar(std::string text, int times = 1) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, text = std::move(text), times] {
      for (int i = 0; i < times; ++i) {
        const os::UniqueFd fd(::accept(listener_.get(), nullptr, nullptr));
        std::array<char, 4096> room{};
        if (::recv(fd.get(), room.data(), room.size(), 0) <= 0) continue;
        static_cast<void>(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL));
        ++served_;
      }
    });
  }
  ~Liar() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  Liar(const Liar&) = delete;
  Liar& operator=(const Liar&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] int served() const { return served_; }

 private:
  os::UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> served_ = 0;
  std::thread thread_;
};

TEST(HttpClientTest, SendsAllMethodsOverOneConnection) {
  const auto server = serve();
  const auto client = client_of(server->port());
  for (const Method method :
       {Method::kGet, Method::kPost, Method::kPut, Method::kPatch, Method::kDelete}) {
    const auto answer =
        client->send({.method = method, .path = "/echo?a=1", .body = "body"}, soon());
    ASSERT_TRUE(answer) << answer.error().to_string();
    EXPECT_EQ(answer->status, 200U);
    EXPECT_EQ(answer->body, std::string(method_name(method)) + " /api/echo?a=1 body");
  }
  EXPECT_EQ(server->counts().connections, 1U);
  EXPECT_EQ(client->send({.path = "/none"}, soon())->status, 404U);
}

TEST(HttpClientTest, SpeaksThroughAUnixSocketAndWithBasicAuthentication) {
  const auto folder = os::make_temporary_directory("imex-http-");
  ASSERT_TRUE(folder);
  ServerOptions options;
  options.listeners = {{.address = "unix:" + *folder + "/s"}};
  auto server = Server::start(std::move(options), echo_router());
  ASSERT_TRUE(server);
  ClientOptions chosen{.url = "unix:" + *folder + "/s", .basic_user = "Aladdin"};
  chosen.basic_password = log::Secret("open sesame");
  const auto client = client_of(0, chosen);
  const auto answer = client->send({.path = "/api/echo"}, soon());
  ASSERT_TRUE(answer) << answer.error().to_string();
  // The example of RFC 7617.
  EXPECT_EQ(answer->headers.find("x-auth"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
  EXPECT_TRUE(os::remove_tree(*folder));
}

TEST(HttpClientTest, AnAnswerOverTheLimitIsRefused) {
  const auto server = serve();
  const auto url = "http://127.0.0.1:" + std::to_string(server->port()) + "/api";
  const auto client = client_of(0, {.url = url, .body_bytes_max = 299'999});
  const auto answer = client->send({.path = "/large"}, soon());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::kResourceExhausted) << answer.error().to_string();
  EXPECT_EQ(client_of(0, {.url = url, .body_bytes_max = 300'000})
                ->send({.path = "/large"}, soon())
                ->body.size(),
            300'000U);
}

TEST(HttpClientTest, ASilentServerEndsAtTheDeadlineAndWhenCalledOff) {
  const os::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  const auto client = client_of(ntohs(address.sin_port));
  const auto late = client->send({.path = "/echo"},
                                 std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::kDeadlineExceeded) << late.error().to_string();

  auto cancel = Cancel::make();
  ASSERT_TRUE(cancel);
  std::thread other([&] { cancel->raise(); });
  const auto cancelled = client->send({.path = "/echo"}, soon(), &*cancel);
  other.join();
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Errc::kAborted) << cancelled.error().to_string();
}

TEST(HttpClientTest, NobodyThereIsUnavailableAndNamesWho) {
  auto server = serve();
  const auto port = server->port();
  server.reset();
  const auto answer = client_of(port)->send({.path = "/echo?secret=1"}, soon());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::kUnavailable);
  EXPECT_THAT(answer.error().message,
              StartsWith("GET /api/echo at 127.0.0.1:" + std::to_string(port) + ": connect to"));
}

TEST(HttpClientTest, AConnectionThatWasClosedWhileIdleIsReplaced) {
  ServerOptions options;
  auto server = serve(echo_router(), options);
  const auto port = server->port();
  const auto client = client_of(port);
  ASSERT_TRUE(client->send({.method = Method::kPost, .path = "/echo"}, soon()));
  server.reset();
  ServerOptions again;
  again.listeners = {{.address = "127.0.0.1:" + std::to_string(port)}};
  auto second = Server::start(std::move(again), echo_router());
  ASSERT_TRUE(second) << second.error().to_string();
  // A POST too: the idle connection is seen to be closed before anything is sent.
  const auto answer = client->send({.method = Method::kPost, .path = "/echo"}, soon());
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_EQ(answer->status, 200U);
}

TEST(HttpClientTest, BrokenAnswersAreErrors) {
  struct Case {
    const char* text;
    Errc code;
  };
  for (const Case& one :
       {Case{"SSH-2.0-OpenSSH\r\n", Errc::kDataLoss},
        Case{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", Errc::kUnavailable},
        Case{"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Errc::kDataLoss},
        Case{"", Errc::kUnavailable},
        Case{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Errc::kDataLoss}}) {
    const Liar liar(one.text);
    const auto answer = client_of(liar.port())->send({.path = "/echo"}, soon());
    ASSERT_FALSE(answer) << one.text;
    EXPECT_EQ(answer.error().code, one.code) << one.text << ": " << answer.error().to_string();
  }
  const Liar endless("HTTP/1.1 200 OK\r\n\r\nall until the end");
  const auto answer = client_of(endless.port())->send({.path = "/echo"}, soon());
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_EQ(answer->body, "all until the end");
}

TEST(HttpClientTest, OddRequestsAndUrlsAreRefusedBeforeAnythingIsSent) {
  const auto client = client_of(1);
  for (const char* path : {"echo", "/a b", "/a\r\nX: y", ""}) {
    EXPECT_EQ(client->send({.path = path}, soon()).error().code, Errc::kInvalidArgument) << path;
  }
  ClientRequest smuggler{.path = "/echo"};
  smuggler.headers.add("X", "a\r\nY: b");
  EXPECT_FALSE(client->send(smuggler, soon()));
  for (const char* url :
       {"", "ftp://a", "http://", "http://a:0", "http://a:99999", "http://u@b", "http://a b"}) {
    const auto made = Client::make({.url = url});
    EXPECT_FALSE(made) << url;
  }
  EXPECT_TRUE(Client::make({.url = "http://[::1]:80/x"}));
}

TEST(HttpClientTest, ManyThreadsShareAClient) {
  const auto server = serve();
  const auto client = client_of(server->port());
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k) {
        const std::string body = std::to_string(i) + "/" + std::to_string(k);
        const auto answer =
            client->send({.method = Method::kPost, .path = "/echo", .body = body}, soon());
        if (answer && answer->body == "POST /api/echo " + body) ++good;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
  EXPECT_LE(server->counts().connections, 8U);
}

}  // namespace
}  // namespace imex::net::http
