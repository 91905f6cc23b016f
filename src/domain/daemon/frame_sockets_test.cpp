#include "frame_sockets.hpp"

#include <sys/socket.h>

#include <array>

#include <gmock/gmock.h>

#include "os/memory.hpp"

namespace imex::domain {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class Recorder final : public FrameSink {
 public:
  void on_frame(ConnectionId, Frame frame, std::vector<os::UniqueFd> fds) override {
    frames.push_back(frame);
    fd_count += fds.size();
  }
  void on_closed(ConnectionId) override { closed = true; }
  std::vector<Frame> frames;
  std::size_t fd_count = 0;
  bool closed = false;
};

class FrameSocketsTest : public testing::Test {
 protected:
  FrameSocketsTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    id_ = sockets_.add(os::UniqueFd(ends[0]), sink_);
    peer_ = os::UniqueFd(ends[1]);
  }
  bool run_until(const std::function<bool()>& done) {
    return loop_.run_until(done, loop_.now() + seconds(10));
  }
  std::size_t drain() {
    std::size_t count = 0;
    FrameBytes bytes{};
    while (true) {
      const auto packet = os::receive_packet(peer_.get(), bytes, false);
      if (!packet || packet->bytes == 0) return count;
      ++count;
    }
  }

  net::EventLoop loop_;
  FdTable fds_;
  std::string log_;
  FrameSockets sockets_{loop_, fds_, [this](int, std::string_view text) { log_.append(text); }};
  Recorder sink_;
  ConnectionId id_ = 0;
  os::UniqueFd peer_;
};

TEST_F(FrameSocketsTest, HandsFramesAndDescriptorsOver) {
  auto memory = os::make_memfd("test", 4096);
  ASSERT_TRUE(memory);
  const FrameBytes bytes = encode(Frame{5, ExportRequest{}});
  const std::array<int, 2> fds = {memory->get(), memory->get()};
  ASSERT_TRUE(os::send_packet(peer_.get(), bytes, fds));
  ASSERT_TRUE(run_until([&] { return !sink_.frames.empty(); }));
  EXPECT_EQ(sink_.frames[0], (Frame{5, ExportRequest{}}));
  EXPECT_EQ(sink_.fd_count, 2U);
}

TEST_F(FrameSocketsTest, ClosesOnBytesThatAreNoFrame) {
  std::array<std::byte, kFrameBytes> noise{};
  noise.fill(std::byte{0x77});
  ASSERT_TRUE(os::send_packet(peer_.get(), noise));
  EXPECT_TRUE(run_until([&] { return sink_.closed; }));
  EXPECT_EQ(sockets_.size(), 0U);
}

TEST_F(FrameSocketsTest, ClosesOnPacketsOfAnotherLength) {
  std::array<std::byte, 2 * kFrameBytes> longer{};
  const FrameBytes frame = encode(Frame{1, Close{}});
  std::copy(frame.begin(), frame.end(), longer.begin());
  ASSERT_TRUE(os::send_packet(peer_.get(), longer));
  EXPECT_TRUE(run_until([&] { return sink_.closed; }));
  EXPECT_TRUE(sink_.frames.empty());
}

TEST_F(FrameSocketsTest, ClosesOnDescriptorsThatTheFrameDoesNotCarry) {
  auto memory = os::make_memfd("test", 4096);
  ASSERT_TRUE(memory);
  const std::array<int, 1> fds = {memory->get()};
  ASSERT_TRUE(os::send_packet(peer_.get(), encode(Frame{1, Close{}}), fds));
  EXPECT_TRUE(run_until([&] { return sink_.closed; }));
  EXPECT_THAT(log_, HasSubstr("descriptors"));
}

TEST_F(FrameSocketsTest, EndOfFileIsAnEnd) {
  peer_.reset();
  EXPECT_TRUE(run_until([&] { return sink_.closed; }));
}

// Descriptors released right after send() must still arrive, in order, once the peer reads.
TEST_F(FrameSocketsTest, QueuesForASlowReaderAndOwnsWhatItQueued) {
  std::size_t sent = 0;
  for (; sockets_.queued_frames() < 10; ++sent) {
    auto memory = os::make_memfd("test", 4096);
    ASSERT_TRUE(memory);
    const FdToken token = fds_.add(std::move(*memory));
    sockets_.send(id_, Frame{static_cast<std::uint32_t>(sent), ExportRequest{}}, {token, token});
    fds_.release(token);
  }
  std::size_t received = 0;
  ASSERT_TRUE(run_until([&] {
    FrameBytes bytes{};
    while (auto packet = os::receive_packet(peer_.get(), bytes, false)) {
      EXPECT_EQ(decode(bytes)->request_id, received++);
      EXPECT_EQ(packet->fds.size(), 2U);
    }
    return received == sent;
  }));
  EXPECT_EQ(sockets_.queued_frames(), 0U);
}

TEST_F(FrameSocketsTest, ClosesAReaderThatNeverReads) {
  for (int i = 0; i < 5000; ++i) sockets_.send(id_, Frame{1, Event{}});
  EXPECT_TRUE(run_until([&] { return sink_.closed; }));
  EXPECT_EQ(sockets_.queued_frames(), 0U);
  EXPECT_GT(drain(), 0U);  // what the kernel had taken is still delivered
}

}  // namespace
}  // namespace imex::domain
