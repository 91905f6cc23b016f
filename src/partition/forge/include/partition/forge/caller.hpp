/// Who calls the administrator's service, and what that caller may do. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace imex::partition::forge {

enum class Role : std::uint8_t {
  kNone,       ///< the certificate is good, but no rule knows its names: may ask for the version
  kSiteAgent,  ///< carries a tenant's REST calls
  kAdmin,      ///< an operator
};
/// "admin", "site-agent", "none"
[[nodiscard]] std::string_view role_name(Role role) noexcept;

/// What a method of the service needs of its caller.
enum class Access : std::uint8_t { kAnyone, kPartitions, kAdminOnly };

/// A certificate's names, or those of a local caller.
struct CallerNames {
  std::string common_name{};
  std::vector<std::string> alternative_names{};  ///< DNS names, URIs, addresses
  /// Came without TLS, over a Unix socket or loopback, and the configuration trusts that.
  bool local = false;
};

/// "cn:ops-*" or "san:spiffe://site/ns/default/sa/site-agent": a name of the certificate, exactly,
/// or all that begin so when the rule ends with an asterisk.
struct CallerRule {
  enum class Names : std::uint8_t { kCommonName, kAlternativeName };
  Names names = Names::kCommonName;
  std::string pattern{};
  bool prefix = false;
  Role role = Role::kNone;
};
/// Errors: kInvalidArgument. A bare asterisk is refused: it would let in every certificate of the
/// CA.
[[nodiscard]] Result<CallerRule> parse_caller_rule(std::string_view text, Role role);

struct Caller {
  Role role = Role::kNone;
  std::string subject{};  ///< for the audit log: "cn:alice", "san:spiffe://...", "local"
};
/// The strongest role that a rule gives to one of the names. Local callers are operators.
[[nodiscard]] Caller identify(const CallerNames& names, const std::vector<CallerRule>& rules);

/// Errors: kPermissionDenied, and says which role was wanted of whom.
[[nodiscard]] Result<void> authorise(const Caller& caller, Access access, std::string_view method);

}  // namespace imex::partition::forge
