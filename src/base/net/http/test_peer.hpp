/// The other end for tests of the server: a raw socket that says exactly what the test wants said.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "os/fd.hpp"
#include "os/poll.hpp"

namespace imex::net::http {

inline constexpr auto kTestPatience = std::chrono::seconds(20);

class TestPeer {
 public:
  explicit TestPeer(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  explicit TestPeer(os::UniqueFd fd) : fd_(std::move(fd)) {}

  void say(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server has closed: what it said counts
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void end_of_text() const { ::shutdown(fd_.get(), SHUT_WR); }

  /// Reads until what was read holds `mark` behind what was taken before; takes it, mark included.
  std::string hear_until(std::string_view mark) {
    std::size_t at = 0;
    while ((at = heard_.find(mark)) == std::string::npos) {
      if (!more()) {
        ADD_FAILURE() << "connection ended before '" << mark << "': " << heard_;
        return {};
      }
    }
    std::string taken = heard_.substr(0, at + mark.size());
    heard_.erase(0, taken.size());
    return taken;
  }
  /// Head and body of one answer that has a Content-Length.
  std::string hear_answer() {
    std::string head = hear_until("\r\n\r\n");
    const auto at = head.find("Content-Length: ");
    if (at == std::string::npos) return head;
    const std::size_t bytes = std::stoul(head.substr(at + 16));
    while (heard_.size() < bytes && more()) {
    }
    head += heard_.substr(0, bytes);
    heard_.erase(0, bytes);
    return head;
  }
  /// All until the server closes.
  std::string hear_all() {
    while (more()) {
    }
    return std::exchange(heard_, {});
  }
  void leave() { fd_.reset(); }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  bool more() {
    std::array<os::PollItem, 1> item{{{.fd = fd_.get()}}};
    EXPECT_TRUE(os::poll_any(item, std::chrono::steady_clock::now() + kTestPatience));
    if (!item[0].readable && !item[0].hung_up) {
      ADD_FAILURE() << "nothing came for " << kTestPatience.count() << " s";
      return false;
    }
    std::array<char, 8192> room{};
    const ssize_t bytes = ::recv(fd_.get(), room.data(), room.size(), 0);
    if (bytes <= 0) return false;
    heard_.append(room.data(), static_cast<std::size_t>(bytes));
    return true;
  }

  os::UniqueFd fd_;
  std::string heard_;
};

/// Waits until `done()`; whether it came to that.
template <class Done>
bool eventually(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + kTestPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::usleep(1000);
  }
  return true;
}

}  // namespace imex::net::http
