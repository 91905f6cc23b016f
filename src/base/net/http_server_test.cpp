#include "net/http_server.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <future>
#include <thread>

#include <gmock/gmock.h>

#include "os/fd.hpp"
#include "os/file.hpp"

namespace imex::net {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

os::UniqueFd connect_to(std::uint16_t port) {
  os::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

os::UniqueFd connect_to(const std::string& path) {
  os::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

/// Sends `request` and reads until the server closes.
std::string exchange(os::UniqueFd fd, const std::string& request) {
  EXPECT_EQ(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0;) {
    answer.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return answer;
}

class HttpServerTest : public testing::Test {
 protected:
  void listen(const std::string& address) {
    auto server = HttpServer::listen(loop_, address, [](std::string_view path) {
      if (path == "/healthz") return HttpResponse{200, "text/plain", "fine\n"};
      return HttpResponse{404, "text/plain", "no such page\n"};
    });
    ASSERT_TRUE(server) << server.error().to_string();
    server_ = std::move(*server);
  }
  template <class Target>
  std::string get(const Target& target, const std::string& request) {
    auto answer =
        std::async(std::launch::async, [&] { return exchange(connect_to(target), request); });
    EXPECT_TRUE(
        loop_.run_until([&] { return answer.wait_for(seconds(0)) == std::future_status::ready; },
                        loop_.now() + seconds(10)));
    return answer.get();
  }
  /// The client thread does not wake the loop: this does.
  HttpServerTest() : tick_(loop_) { rearm(); }
  void rearm() {
    tick_.arm(loop_.now() + std::chrono::milliseconds(1), [this] { rearm(); });
  }

  EventLoop loop_;
  Timer tick_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ServesPathsOnLoopback) {
  listen("127.0.0.1:0");
  ASSERT_NE(server_->port(), 0);
  const std::string answer =
      get(server_->port(), "GET /healthz?x=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\nfine\n"));
  EXPECT_THAT(get(server_->port(), "GET /none HTTP/1.0\r\n\r\n"), HasSubstr(" 404 "));
}

TEST_F(HttpServerTest, KeepsConnectionsAndServesHead) {
  listen("127.0.0.1:0");
  const std::string answer = get(server_->port(),
                                 "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
                                 "HEAD /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const auto second = answer.find("HTTP/1.1 200", 5);
  ASSERT_NE(second, std::string::npos) << answer;
  EXPECT_THAT(answer.substr(second), HasSubstr("Content-Length: 5"));
  EXPECT_EQ(answer.find("fine", second), std::string::npos);
}

TEST_F(HttpServerTest, RefusesOtherMethodsAndLongRequests) {
  listen("127.0.0.1:0");
  EXPECT_THAT(get(server_->port(), "DELETE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
              HasSubstr(" 405 "));
  const std::string longer =
      "GET / HTTP/1.1\r\nX: " + std::string(20'000, 'a') + "\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(get(server_->port(), longer), "");
  EXPECT_EQ(get(server_->port(), "\x16\x03\x01 not http\r\n\r\n"), "");
}

TEST_F(HttpServerTest, ServesAUnixSocketThatOnlyTheOwnerMayUse) {
  auto made = os::make_temporary_directory("imex-http-");
  ASSERT_TRUE(made);
  const std::string path = *made + "/metrics.sock";
  listen("unix:" + path);
  struct stat facts{};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  EXPECT_THAT(get(path, "GET /healthz HTTP/1.0\r\n\r\n"), HasSubstr("fine"));
  server_.reset();
  EXPECT_NE(::stat(path.c_str(), &facts), 0);
  EXPECT_TRUE(os::remove_tree(*made));
}

TEST_F(HttpServerTest, SaysWhatItCannotListenOn) {
  const auto handler = [](std::string_view) { return HttpResponse{}; };
  EXPECT_EQ(HttpServer::listen(loop_, "here", handler).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(HttpServer::listen(loop_, "127.0.0.1:99999", handler).error().code,
            Errc::kInvalidArgument);
  listen("127.0.0.1:0");
  const auto taken =
      HttpServer::listen(loop_, "127.0.0.1:" + std::to_string(server_->port()), handler);
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message, HasSubstr("Address already in use"));
}

}  // namespace
}  // namespace imex::net
