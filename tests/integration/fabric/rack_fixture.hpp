/// imex-rack as a process of the test.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "os/file.hpp"
#include "os/process.hpp"
#include "rack/control_client.hpp"

namespace imex::test {

class RackProcess {
 public:
  explicit RackProcess(std::vector<std::string> more = {}) {
    folder_ = os::make_temporary_directory("imex-rack").value();
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const os::UniqueFd read_end(ends[0]), write_end(ends[1]);
    std::vector<std::string> arguments{IMEX_RACK,  "--topology",  "nvl36",
                                       "--listen", "127.0.0.1:0", "--log-level",
                                       "error",    "--control",   control_path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto child =
        os::Child::start({.arguments = arguments, .environment = {}, .stdout_fd = write_end.get()});
    EXPECT_TRUE(child) << child.error().to_string();
    child_ = std::make_unique<os::Child>(*std::move(child));
    ready_ = nlohmann::json::parse(read_line(read_end.get()), nullptr, false);
    EXPECT_FALSE(ready_.is_discarded()) << "no ready line";
    auto control = rack::ControlClient::connect(control_path(), std::chrono::seconds(10));
    EXPECT_TRUE(control) << control.error().to_string();
    control_ = std::make_unique<rack::ControlClient>(*std::move(control));
  }
  ~RackProcess() {
    control_.reset();
    static_cast<void>(child_->kill(SIGTERM));
    EXPECT_EQ(child_->wait(std::chrono::seconds(20)), 0);
    static_cast<void>(os::remove_tree(folder_));
  }
  RackProcess(const RackProcess&) = delete;
  RackProcess& operator=(const RackProcess&) = delete;

  [[nodiscard]] rack::ControlClient& control() { return *control_; }
  [[nodiscard]] nlohmann::json rack() {
    const auto status = control_->status();
    EXPECT_TRUE(status);
    return nlohmann::json::parse(*status)["racks"][0];
  }
  /// Of the first domain.
  std::uint64_t fault(rack::FaultRequest request) {
    if (request.domain.empty()) request.domain = "rack-0";
    const auto id = control_->set_fault(request);
    EXPECT_TRUE(id) << id.error().to_string();
    return id.value_or(0);
  }
  void heal() { EXPECT_TRUE(control_->clear_faults("", "")); }

 private:
  [[nodiscard]] std::string control_path() const { return folder_ + "/control.sock"; }
  static std::string read_line(int fd) {
    std::string line;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < until) {
      pollfd readable{fd, POLLIN, 0};
      if (::poll(&readable, 1, 100) <= 0) continue;
      char c = 0;
      if (::read(fd, &c, 1) != 1 || c == '\n') break;
      line += c;
    }
    return line;
  }

  std::string folder_;
  std::unique_ptr<os::Child> child_;
  nlohmann::json ready_;
  std::unique_ptr<rack::ControlClient> control_;
};

}  // namespace imex::test
