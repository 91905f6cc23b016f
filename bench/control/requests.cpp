// Requests per second of the API, and one request behind many idle connections.

#include <algorithm>

#include <fmt/format.h>

#include "api.hpp"
#include "bench/control/request_load.hpp"
#include "measurements.hpp"

namespace imex::bench {
namespace {

constexpr std::size_t kConnections = 64, kIdle = 1000;
constexpr std::chrono::milliseconds kTime{5'000};
constexpr double kReads = 20'000, kWrites = 2'000, kP99Us = 20'000, kBehindIdleUs = 5'000;

std::string wire(std::string_view method, const std::string& path, const ControlPlane& plane,
                 const std::string& body) {
  return fmt::format(
      "{} /v2/org/{}/nico{} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\n"
      "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      method, ControlPlane::kOrg, path, plane.token().reveal(), body.size(), body);
}

/// Rates are marked the other way round: what is missing of the wanted number.
Mark at_least(std::string text, double rate, double wanted) {
  return {std::move(text), wanted / std::max(rate, 1.0), 1.0};
}

ControlRow row_of(std::string operation, std::string setting, RequestLoad load) {
  ControlRow row{.operation = std::move(operation), .setting = std::move(setting)};
  row.figures = {{"requests_per_second", load.per_second()}};
  row.time = summarize(std::move(load.samples));
  return row;
}

Result<std::vector<partition::LogicalPartitionId>> some_partitions(const ControlPlane& plane,
                                                                   std::size_t count) {
  IMEX_TRY(auto client, plane.tenant());
  std::vector<partition::LogicalPartitionId> ids;
  for (std::size_t i = 0; i != count; ++i) {
    IMEX_TRY(const auto made,
             client->create_partition({.name = fmt::format("load-{}", i), .site = plane.site()}));
    ids.push_back(made.id);
  }
  return ids;
}

}  // namespace

Result<std::vector<ControlRow>> measure_requests(const ControlOptions& options) {
  IMEX_TRY(const auto plane, ControlPlane::start(plane_options(options, 1)));
  IMEX_TRY(const auto ids, some_partitions(plane, kConnections));
  RequestLoadOptions load;
  load.port = plane.port();
  load.connections = kConnections;
  load.time = std::chrono::duration_cast<std::chrono::milliseconds>(kTime * options.scale);

  std::vector<ControlRow> rows;
  load.request = [&](std::size_t connection, std::uint64_t) {
    return wire("GET", "/nvlink-logical-partition/" + ids[connection].to_string(), plane, {});
  };
  IMEX_TRY(RequestLoad reads, run_request_load(load));
  const double read_rate = reads.per_second();
  rows.push_back(row_of("rest_read", "64 connections", std::move(reads)));
  rows.back().marks = {at_least("20,000 a second", read_rate, kReads),
                       {"p99 under 20 ms", rows.back().time.p99_us, kP99Us}};

  load.request = [&](std::size_t connection, std::uint64_t number) {
    return wire("PATCH", "/nvlink-logical-partition/" + ids[connection].to_string(), plane,
                fmt::format(R"({{"description":"{}"}})", number));
  };
  IMEX_TRY(RequestLoad writes, run_request_load(load));
  const double write_rate = writes.per_second();
  rows.push_back(row_of("rest_write", "64 connections, SQLite", std::move(writes)));
  rows.back().marks = {at_least("2,000 a second", write_rate, kWrites),
                       {"p99 under 20 ms", rows.back().time.p99_us, kP99Us}};

  load.request = [&](std::size_t, std::uint64_t) {
    return wire("GET", "/nvlink-logical-partition/" + ids[0].to_string(), plane, {});
  };
  IMEX_TRY(const auto idle, open_idle_connections(load, kIdle));
  load.connections = 1;
  IMEX_TRY(RequestLoad behind, run_request_load(load));
  rows.push_back(row_of("rest_read", fmt::format("behind {} idle connections", idle.size()),
                        std::move(behind)));
  rows.back().marks = {{"p99 under 5 ms", rows.back().time.p99_us, kBehindIdleUs}};
  return rows;
}

}  // namespace imex::bench
