/// Strong identities of the controller's objects: one is never given where another is wanted.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "base/uuid.hpp"

namespace imex::partition {

/// A UUID that says what it names.
template <class Tag>
struct Id {
  Uuid uuid{};

  [[nodiscard]] bool is_nil() const noexcept { return uuid.is_nil(); }
  [[nodiscard]] std::string to_string() const { return uuid.to_string(); }
  friend auto operator<=>(const Id&, const Id&) = default;
};

using TenantId = Id<struct TenantTag>;
using ProviderId = Id<struct ProviderTag>;
using SiteId = Id<struct SiteTag>;
using InstanceTypeId = Id<struct InstanceTypeTag>;
using AllocationId = Id<struct AllocationTag>;
using VpcId = Id<struct VpcTag>;
using LogicalPartitionId = Id<struct LogicalPartitionTag>;
using InstanceId = Id<struct InstanceTag>;
using InterfaceId = Id<struct InterfaceTag>;
using PhysicalPartitionId = Id<struct PhysicalPartitionTag>;
using OperationId = Id<struct OperationTag>;
using ReservationId = Id<struct ReservationTag>;
using EndpointId = Id<struct EndpointTag>;
/// The UUID that the fabric manager gives its NVLink domain (`domain_uuid` of every answer).
using DomainId = Id<struct DomainTag>;

/// A host (compute tray). Opaque text that the site makes from hardware facts; not a UUID.
struct MachineId {
  std::string text{};

  friend auto operator<=>(const MachineId&, const MachineId&) = default;
};

}  // namespace imex::partition

template <class Tag>
struct std::hash<imex::partition::Id<Tag>> {
  std::size_t operator()(const imex::partition::Id<Tag>& id) const noexcept {
    return std::hash<imex::Uuid>{}(id.uuid);
  }
};
template <>
struct std::hash<imex::partition::MachineId> {
  std::size_t operator()(const imex::partition::MachineId& id) const noexcept {
    return std::hash<std::string>{}(id.text);
  }
};
