/// From a believed token to who is asking: which orgs it belongs to, and with which roles
/// (partition-api.md 2.2).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "jwt/verifier.hpp"
#include "partition/service/service.hpp"

namespace imex::partition {

/// One way to get an org and its roles; the first that gives the org of the URL counts.
struct ClaimMapping {
  /// Static: every token of the issuer belongs to this org. Empty: `org_claim` says.
  std::string org{};
  /// Path of a claim, "data.org" or "org": a text or a list of texts.
  std::string org_claim{};
  /// Static roles, besides those of `roles_claim`.
  std::vector<std::string> roles{};
  /// Path of a claim: a text or a list of texts. "NICO_TENANT_ADMIN" counts as "TENANT_ADMIN".
  std::string roles_claim{};
  /// A machine's account: provider and tenant admin both.
  bool service_account = false;
};

struct RestIssuer {
  jwt::Issuer keys{};
  std::vector<std::string> scopes{};  ///< a token needs all of them, otherwise 403
  std::vector<ClaimMapping> mappings{};
};

/// "TENANT_ADMIN" and the others, also after one leading "word_"; unknown ones give nothing.
void add_role(Roles& roles, std::string_view name);

/// Errors: kPermissionDenied (the token does not belong to this org).
[[nodiscard]] Result<Caller> caller_of(const jwt::Token& token, const RestIssuer& issuer,
                                       std::string_view org);

}  // namespace imex::partition
