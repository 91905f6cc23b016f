/// Requests over many connections at once from one thread: as fast as answers come.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "bench/report.hpp"
#include "os/fd.hpp"

namespace imex::bench {

struct RequestLoadOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::size_t connections = 64;
  std::chrono::milliseconds time{5'000};
  /// The whole request of connection `connection`, its `number`th, as it goes over the wire.
  std::function<std::string(std::size_t connection, std::uint64_t number)> request;
  unsigned status = 200;  ///< that every answer must have
};

struct RequestLoad {
  Samples samples;  ///< from the first byte sent to the last received
  double seconds = 0;
  [[nodiscard]] double per_second() const {
    return seconds > 0 ? static_cast<double>(samples.size()) / seconds : 0;
  }
};

/// Errors: kUnavailable (connection lost), kDataLoss (another status, with the answer),
/// kDeadlineExceeded (no answer for 10 s).
[[nodiscard]] Result<RequestLoad> run_request_load(const RequestLoadOptions& options);

/// Connections that asked once, were answered, and stay. Errors: as above.
[[nodiscard]] Result<std::vector<os::UniqueFd>> open_idle_connections(
    const RequestLoadOptions& options, std::size_t count);

}  // namespace imex::bench
