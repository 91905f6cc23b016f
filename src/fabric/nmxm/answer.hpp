/// JSON of an NMX-M as our own words, checked and bounded. Pure: the fuzz target calls these with
/// any bytes.
///
/// Unknown keys are ignored, unknown words of an enumeration are "unknown", and a list may come as
/// one object, an object as a list of one: both have been seen.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/manager.hpp"

namespace imex::fabric::nmxm {

/// Longest entity id that is taken: 24 hexadecimal digits by the description, any text in the
/// field.
inline constexpr std::size_t kEntityIdMax = 128;

struct GpuEntry {
  std::string entity;
  std::optional<Uuid> domain;
  ObservedGpu gpu;
};

/// How a partition names a GPU.
struct Member {
  std::string entity{};  ///< empty: by location
  std::optional<Uuid> domain{};
  std::uint64_t chassis_id = 0, slot_id = 0, host_id = 0;
  std::uint32_t device_id = 0;
};

struct PartitionEntry {
  std::string entity;
  ObservedPartition partition;  ///< without members
  std::vector<Member> members;
};

struct NodeEntry {
  std::optional<Uuid> domain;
  ObservedNode node;
};

struct ServiceEntry {
  std::optional<Uuid> domain;
  bool controller = false;
  std::string instance, version, status, status_text;
};

struct Operation {
  enum class Status : std::uint8_t { kRunning, kCompleted, kFailed, kCancelled };
  Status status = Status::kRunning;
  std::string step, error, details;
  double percentage = 0;
};

// Errors: kDataLoss with the key that is missing, of the wrong kind or out of range.
[[nodiscard]] Result<std::vector<GpuEntry>> read_gpus(std::string_view json);
[[nodiscard]] Result<std::vector<PartitionEntry>> read_partitions(std::string_view json);
[[nodiscard]] Result<std::vector<NodeEntry>> read_nodes(std::string_view json);
[[nodiscard]] Result<std::vector<ServiceEntry>> read_services(std::string_view json);
[[nodiscard]] Result<Operation> read_operation(std::string_view json);
/// `operationId` of the answer to a change.
[[nodiscard]] Result<std::string> read_operation_id(std::string_view json);

/// What the body of an error says: its description and code, or its beginning where it is none of
/// NMX-M's.
[[nodiscard]] std::string read_error(std::string_view body);

[[nodiscard]] ControlPlaneState control_plane_of(std::string_view service_status) noexcept;

// Requests.
[[nodiscard]] std::string create_body(const std::string& name, const std::vector<Member>& members);
[[nodiscard]] std::string update_body(const std::vector<Member>& members);

}  // namespace imex::fabric::nmxm
