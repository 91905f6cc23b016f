/// What the API's operations are to the world: who may call them, what they take and give. One row
/// per operation; authorisation and the OpenAPI document both come from it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "partition/service/service.hpp"

namespace imex::partition {

/// Roles of which a caller needs one, as bits.
using RoleSet = std::uint8_t;
inline constexpr RoleSet kProviderAdmin = 1, kProviderViewer = 2, kTenantAdmin = 4;
/// Any member of the org, also without a role.
inline constexpr RoleSet kMember = 0;
inline constexpr RoleSet kProvider = kProviderAdmin | kProviderViewer;
inline constexpr RoleSet kAnyRole = kProvider | kTenantAdmin;

[[nodiscard]] bool may_call(RoleSet needed, const Roles& held) noexcept;

/// Texts are in the shorthand of schema.hpp.
struct RouteRow {
  std::string_view name;  ///< of the operation in Service::operations()
  RoleSet roles;
  std::string_view summary;
  std::string_view query;     ///< parameters, all optional unless marked with '!'
  std::string_view order_by;  ///< fields of orderBy; not empty: a list with paging
  std::string_view body;      ///< type of the request's body; empty: none
  unsigned status;            ///< of success
  std::string_view answer;    ///< type of the answer's body; "text": plain text
  std::string_view errors;    ///< statuses besides 400, 401, 403, 500 and 503
};

[[nodiscard]] std::span<const RouteRow> route_rows() noexcept;
[[nodiscard]] const RouteRow* find_row(std::string_view name) noexcept;

}  // namespace imex::partition
