#include "net/http/response_stream.hpp"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "base/mutex.hpp"
#include "net/http/server.hpp"
#include "test_peer.hpp"

namespace imex::net::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Push = ResponseStream::Push;

constexpr std::string_view kWatch = "GET /watch HTTP/1.1\r\nHost: a\r\n\r\n";

class ResponseStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    Router router;
    router.add(Method::kGet, "/watch", [this](const Request&) {
      auto stream = ResponseStream::create(buffer_bytes_);
      stream.on_end([this] { ++ended_; });
      stream.push("hello\n");
      const MutexLock lock(mutex_);
      streams_.push_back(stream);
      return Response::streamed("text/event-stream", stream);
    });
    router.add(Method::kGet, "/now", [](const Request&) { return Response::text(200, "now"); });
    auto server = Server::start({.listeners = {{.address = "127.0.0.1:0"}}}, std::move(router));
    ASSERT_TRUE(server) << server.error().to_string();
    server_ = std::move(*server);
  }
  ResponseStream stream(std::size_t index) {
    EXPECT_TRUE(eventually([&] {
      const MutexLock lock(mutex_);
      return streams_.size() > index;
    }));
    const MutexLock lock(mutex_);
    return streams_.at(index);
  }

  std::size_t buffer_bytes_ = 1U << 16U;
  std::atomic<int> ended_ = 0;
  imex::Mutex mutex_;
  std::vector<ResponseStream> streams_ IMEX_GUARDED_BY(mutex_);
  std::unique_ptr<Server> server_;
};

TEST_F(ResponseStreamTest, WhatIsPushedArrivesInOrderAndTheEndIsSeen) {
  TestPeer peer(server_->port());
  peer.say(kWatch);
  const std::string head = peer.hear_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(peer.hear_until("hello\n\r\n"), "6\r\nhello\n\r\n");
  const ResponseStream out = stream(0);
  EXPECT_EQ(out.push("one\n"), Push::kQueued);
  EXPECT_EQ(peer.hear_until("one\n\r\n"), "4\r\none\n\r\n");
  EXPECT_EQ(out.push("two\n"), Push::kQueued);
  out.close();
  out.close();
  EXPECT_THAT(peer.hear_all(), EndsWith("two\n\r\n0\r\n\r\n"));
  EXPECT_EQ(out.push("three\n"), Push::kGone);
  EXPECT_TRUE(eventually([&] { return ended_ == 1; }));
}

TEST_F(ResponseStreamTest, OldClientsGetTheBytesUntilTheEnd) {
  TestPeer peer(server_->port());
  peer.say("GET /watch HTTP/1.0\r\n\r\n");
  const ResponseStream out = stream(0);
  out.push("one\n");
  out.close();
  EXPECT_THAT(peer.hear_all(), EndsWith("\r\n\r\nhello\none\n"));
}

TEST_F(ResponseStreamTest, APeerThatLeavesIsNoticedWithoutAPush) {
  TestPeer peer(server_->port());
  peer.say(kWatch);
  static_cast<void>(peer.hear_until("hello\n"));
  const ResponseStream out = stream(0);
  EXPECT_TRUE(out.open());
  peer.leave();
  EXPECT_TRUE(eventually([&] { return ended_ == 1; }));
  EXPECT_FALSE(out.open());
  EXPECT_EQ(out.push("late"), Push::kGone);
  EXPECT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
  EXPECT_EQ(server_->counts().streams, 0U);
  std::atomic<int> again = 0;
  out.on_end([&] { ++again; });
  EXPECT_EQ(again, 1);  // it has ended already
}

TEST_F(ResponseStreamTest, AnIdleReaderFillsTheBufferAndNotTheMemory) {
  TestPeer peer(server_->port());
  peer.say(kWatch);
  const ResponseStream out = stream(0);
  const auto piece = std::make_shared<const std::string>(1U << 15U, 'x');
  Push last = Push::kQueued;
  std::size_t queued = 0;
  // The kernel's buffers take some megabytes first.
  ASSERT_TRUE(eventually([&] {
    last = out.push(piece);
    queued += last == Push::kQueued ? piece->size() : 0;
    return last == Push::kFull;
  }));
  EXPECT_TRUE(out.open());
  out.close();
  const std::string all = peer.hear_all();
  EXPECT_GE(all.size(), queued);
  EXPECT_THAT(all, EndsWith("\r\n0\r\n\r\n"));
}

TEST_F(ResponseStreamTest, APieceLargerThanTheBufferFitsAlone) {
  const auto out = ResponseStream::create(10);
  EXPECT_EQ(out.push(std::string(100, 'x')), Push::kQueued);
  EXPECT_EQ(out.push("y"), Push::kFull);
  EXPECT_EQ(ResponseStream().push("x"), Push::kGone);
}

TEST_F(ResponseStreamTest, ManyThreadsPushToManyWatchers) {
  constexpr int kWatchers = 20, kThreads = 4, kEach = 100;
  std::vector<std::unique_ptr<TestPeer>> peers;
  for (int i = 0; i < kWatchers; ++i) {
    peers.push_back(std::make_unique<TestPeer>(server_->port()));
    peers.back()->say(kWatch);
  }
  static_cast<void>(stream(kWatchers - 1));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const auto text = std::make_shared<const std::string>("<" + std::to_string(t) + "." +
                                                              std::to_string(i) + ">");
        for (int w = 0; w < kWatchers; ++w)
          EXPECT_EQ(stream(static_cast<std::size_t>(w)).push(text), Push::kQueued);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int w = 0; w < kWatchers; ++w) stream(static_cast<std::size_t>(w)).close();
  for (const auto& peer : peers) {
    const std::string all = peer->hear_all();
    for (int t = 0; t < kThreads; ++t) {
      std::size_t at = 0;
      for (int i = 0; i < kEach; ++i) {
        at = all.find("<" + std::to_string(t) + "." + std::to_string(i) + ">", at);
        ASSERT_NE(at, std::string::npos) << t << "." << i;
      }
    }
  }
}

TEST_F(ResponseStreamTest, StopEndsStreamsProperlyAndLatePushesAreHarmless) {
  TestPeer peer(server_->port());
  peer.say(kWatch);
  static_cast<void>(peer.hear_until("hello\n"));
  const ResponseStream out = stream(0);
  std::atomic<bool> done = false;
  std::thread pusher([&] {
    while (!done) static_cast<void>(out.push("x"));
  });
  std::thread reader([&] { EXPECT_THAT(peer.hear_all(), EndsWith("0\r\n\r\n")); });
  server_->stop(kTestPatience);
  reader.join();
  server_.reset();
  done = true;
  pusher.join();
  EXPECT_EQ(out.push("x"), Push::kGone);
  EXPECT_EQ(ended_, 1);
}

TEST_F(ResponseStreamTest, AHeadRequestEndsTheStreamAtOnce) {
  TestPeer peer(server_->port());
  peer.say("HEAD /watch HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(peer.hear_all(), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n")));
  EXPECT_TRUE(eventually([&] { return ended_ == 1; }));
}

}  // namespace
}  // namespace imex::net::http
