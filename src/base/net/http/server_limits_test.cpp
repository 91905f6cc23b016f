// What a server does with those who say too much, too little, too slowly, or wrong.
#include <atomic>
#include <future>
#include <thread>

#include <gmock/gmock.h>

#include "base/mutex.hpp"
#include "net/http/server.hpp"
#include "test_peer.hpp"

namespace imex::net::http {
namespace {

using std::chrono::milliseconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A door that handlers stand before until it is opened.
class Door {
 public:
  void open() {
    {
      const MutexLock lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void pass() {
    const MutexLock lock(mutex_);
    ++waiting_;
    const auto deadline = std::chrono::steady_clock::now() + kTestPatience;
    while (!open_ && changed_.wait_until(mutex_, deadline)) {
    }
  }
  [[nodiscard]] int waiting() const {
    const MutexLock lock(mutex_);
    return waiting_;
  }

 private:
  mutable imex::Mutex mutex_;
  CondVar changed_;
  bool open_ IMEX_GUARDED_BY(mutex_) = false;
  int waiting_ IMEX_GUARDED_BY(mutex_) = 0;
};

class ServerLimitsTest : public testing::Test {
 protected:
  void serve() {
    options_.listeners = {{.address = "127.0.0.1:0"}};
    Router router;
    router.add(Method::kPost, "/take", [](const Request& request) {
      return Response::text(200, std::to_string(request.body.size()));
    });
    router.add(Method::kPost, "/small", [](const Request&) { return Response::text(200, "ok"); },
               {.body_bytes_max = 10});
    router.add(Method::kGet, "/wait", [this](const Request&) {
      door_.pass();
      return Response::text(200, "waited");
    });
    router.add(Method::kGet, "/now", [](const Request&) { return Response::text(200, "now"); },
               {.immediate = true});
    auto server = Server::start(options_, std::move(router));
    ASSERT_TRUE(server) << server.error().to_string();
    server_ = std::move(*server);
  }
  std::string tell(const std::string& text) {
    TestPeer peer(server_->port());
    peer.say(text);
    return peer.hear_all();
  }
  void TearDown() override { door_.open(); }

  ServerOptions options_;
  Door door_;  // before the server: its handlers use it
  std::unique_ptr<Server> server_;
};

TEST_F(ServerLimitsTest, LongHeadersAreRefused) {
  options_.header_bytes_max = 1000;
  serve();
  EXPECT_THAT(tell("POST /take HTTP/1.1\r\nHost: a\r\nX: " + std::string(1000, 'x')),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(tell("GET /" + std::string(5000, 'x')), StartsWith("HTTP/1.1 431 "));
  std::string many = "POST /take HTTP/1.1\r\nHost: a\r\n";
  while (many.size() < 2000) many += "A: b\r\n";
  EXPECT_THAT(tell(many), StartsWith("HTTP/1.1 431 "));
}

TEST_F(ServerLimitsTest, LongBodiesAreRefusedBeforeTheyAreRead) {
  options_.body_bytes_max = 100;
  serve();
  EXPECT_THAT(tell("POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(
      tell("POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n"),
      StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(tell("POST /take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" +
                   std::string(101, 'x')),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(
      tell("POST /take HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100\r\n\r\n" +
           std::string(100, 'x')),
      EndsWith("\r\n\r\n100"));
  EXPECT_THAT(tell("POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
}

/// The peer that is still sending reads the answer, and not a reset.
TEST_F(ServerLimitsTest, WhoSendsTooMuchReadsWhy) {
  options_.body_bytes_max = 1000;
  serve();
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(tell("POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" +
                     std::string(1'000'000, 'x')),
                StartsWith("HTTP/1.1 413 "));
  }
}

TEST_F(ServerLimitsTest, WhatIsNoRequestIsRefused) {
  serve();
  for (const char* text :
       {"\x16\x03\x01\r\n\r\n", "GET\r\n\r\n", "GET /now HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
        "GET /now HTTP/1.1\r\n\r\n", "GET /now HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "GET /now?a=%zz HTTP/1.1\r\nHost: a\r\n\r\n", "GET now HTTP/1.1\r\nHost: a\r\n\r\n"}) {
    EXPECT_THAT(tell(text), StartsWith("HTTP/1.1 400 ")) << text;
  }
  EXPECT_THAT(tell("POST /take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"),
              StartsWith("HTTP/1.1 501 "));
  EXPECT_THAT(tell("TRACE /now HTTP/1.1\r\nHost: a\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(tell("BREW /now HTTP/1.1\r\nHost: a\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(tell("GET http://host:1/now HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
              EndsWith("now"));
}

TEST_F(ServerLimitsTest, SlowRequestsEndWithATimeout) {
  options_.header_timeout = milliseconds(200);
  options_.body_timeout = milliseconds(200);
  serve();
  EXPECT_THAT(tell("GET /now HTTP/1.1\r\nHos"), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(tell("POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx"),
              StartsWith("HTTP/1.1 408 "));
  // A byte now and then does not keep it open.
  TestPeer slow(server_->port());
  std::atomic<bool> ended = false;
  std::thread drip([&] {
    while (!ended) {
      slow.say("X");
      ::usleep(20'000);
    }
  });
  EXPECT_THAT(slow.hear_until("\r\n"), StartsWith("HTTP/1.1 408 "));
  ended = true;
  drip.join();
}

TEST_F(ServerLimitsTest, IdleConnectionsAreClosed) {
  options_.idle_timeout = milliseconds(200);
  serve();
  EXPECT_EQ(tell(""), "");
  TestPeer peer(server_->port());
  peer.say("GET /now HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(peer.hear_all(), EndsWith("now"));
}

TEST_F(ServerLimitsTest, AFullQueueIsA503AndConnectionsOverTheLimitToo) {
  options_.threads = 1;
  options_.queue_max = 1;
  options_.connections_max = 3;
  serve();
  const std::string ask = "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n";
  TestPeer first(server_->port()), second(server_->port()), third(server_->port());
  first.say(ask);
  ASSERT_TRUE(eventually([&] { return door_.waiting() == 1; }));
  second.say(ask);
  ASSERT_TRUE(eventually([&] { return server_->counts().queued == 1; }));
  third.say(ask);
  const std::string busy = third.hear_answer();
  EXPECT_THAT(busy, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(busy, HasSubstr("Retry-After: 1\r\n"));
  // What needs no thread is answered all the same.
  third.say("GET /now HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(third.hear_answer(), EndsWith("now"));
  EXPECT_THAT(tell("GET /now HTTP/1.1\r\nHost: a\r\n\r\n"), StartsWith("HTTP/1.1 503 "));
  door_.open();
  EXPECT_THAT(first.hear_answer(), EndsWith("waited"));
  EXPECT_THAT(second.hear_answer(), EndsWith("waited"));
  EXPECT_EQ(server_->counts().refused, 2U);
}

TEST_F(ServerLimitsTest, StopLetsRequestsFinishAndTakesNoNewOnes) {
  serve();
  TestPeer busy(server_->port()), idle(server_->port());
  busy.say("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return door_.waiting() == 1; }));
  auto stopped = std::async(std::launch::async, [&] { server_->stop(kTestPatience); });
  EXPECT_EQ(idle.hear_all(), "");  // closed at once
  door_.open();
  const std::string answer = busy.hear_all();
  EXPECT_THAT(answer, EndsWith("waited"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  stopped.get();
  EXPECT_EQ(server_->counts().connections, 0U);
  server_->stop(Nanos::zero());  // again is fine
}

TEST_F(ServerLimitsTest, StopWithoutGraceCutsWhoHasNotFinished) {
  serve();
  TestPeer half(server_->port());
  half.say("POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
  ASSERT_TRUE(eventually([&] { return server_->counts().connections == 1; }));
  server_->stop(milliseconds(50));
  EXPECT_EQ(half.hear_all(), "");
}

TEST_F(ServerLimitsTest, PeersThatLeaveInTheMiddleLeaveNothingBehind) {
  serve();
  for (int i = 0; i < 50; ++i) {
    TestPeer peer(server_->port());
    peer.say(i % 2 == 0 ? "POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"
                        : "GET /now HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  EXPECT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
}

}  // namespace
}  // namespace imex::net::http
