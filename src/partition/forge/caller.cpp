#include "partition/forge/caller.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace imex::partition::forge {
namespace {

bool fits(const CallerRule& rule, const std::string& name) {
  if (name.empty()) return false;
  return rule.prefix ? name.starts_with(rule.pattern) : name == rule.pattern;
}

std::string subject_of(const CallerNames& names) {
  if (names.local) return "local";
  if (!names.common_name.empty()) return "cn:" + names.common_name;
  if (!names.alternative_names.empty()) return "san:" + names.alternative_names.front();
  return "nameless certificate";
}

}  // namespace

std::string_view role_name(Role role) noexcept {
  switch (role) {
    case Role::kAdmin:
      return "admin";
    case Role::kSiteAgent:
      return "site-agent";
    case Role::kNone:
      break;
  }
  return "none";
}

Result<CallerRule> parse_caller_rule(std::string_view text, Role role) {
  CallerRule rule;
  rule.role = role;
  if (text.starts_with("cn:")) {
    rule.names = CallerRule::Names::kCommonName;
    text.remove_prefix(3);
  } else if (text.starts_with("san:")) {
    rule.names = CallerRule::Names::kAlternativeName;
    text.remove_prefix(4);
  } else {
    return fail(Errc::kInvalidArgument, fmt::format("caller rule '{}' has no kind of name", text),
                "write cn:NAME for the certificate's common name, or san:NAME for one of its "
                "alternative names; a * at the end takes all that begin so");
  }
  if (text.ends_with('*')) {
    rule.prefix = true;
    text.remove_suffix(1);
  }
  if (text.empty()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("a caller rule for {} names nobody, or everybody", role_name(role)),
                "name the certificate, at least by how its name begins");
  }
  rule.pattern = std::string(text);
  return rule;
}

Caller identify(const CallerNames& names, const std::vector<CallerRule>& rules) {
  Caller caller{Role::kNone, subject_of(names)};
  if (names.local) {
    caller.role = Role::kAdmin;
    return caller;
  }
  const auto take = [&](const CallerRule& rule, std::string_view kind, const std::string& name) {
    if (rule.role <= caller.role || !fits(rule, name)) return;
    caller.role = rule.role;
    caller.subject = fmt::format("{}:{}", kind, name);
  };
  for (const CallerRule& rule : rules) {
    if (rule.names == CallerRule::Names::kCommonName) {
      take(rule, "cn", names.common_name);
      continue;
    }
    for (const std::string& name : names.alternative_names) take(rule, "san", name);
  }
  return caller;
}

Result<void> authorise(const Caller& caller, Access access, std::string_view method) {
  const bool allowed = access == Access::kAnyone || caller.role == Role::kAdmin ||
                       (access == Access::kPartitions && caller.role == Role::kSiteAgent);
  if (allowed) return {};
  return fail(Errc::kPermissionDenied,
              fmt::format("{} is for {}; the caller '{}' has role {}", method,
                          access == Access::kAdminOnly ? "administrators"
                                                       : "administrators and the site agent",
                          printable(caller.subject), role_name(caller.role)),
              "use a certificate that the controller's caller rules know, or add a rule for this "
              "one");
}

}  // namespace imex::partition::forge
