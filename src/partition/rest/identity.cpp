#include "partition/rest/identity.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "json/json.hpp"

namespace imex::partition {

namespace {

using Value = nlohmann::json;

/// The claim at "a.b.c"; null if there is none.
const Value* claim_at(const Value& claims, std::string_view path) {
  // A claim may have dots in its own name: "https://example.com/org".
  if (const Value* whole = json::find(claims, path)) return whole;
  const Value* at = &claims;
  while (at != nullptr && !path.empty()) {
    const std::string_view name = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    at = json::find(*at, name);
  }
  return at;
}

std::vector<std::string> texts_at(const Value& claims, const std::string& path) {
  std::vector<std::string> texts;
  if (path.empty()) return texts;
  const Value* found = claim_at(claims, path);
  if (found == nullptr) return texts;
  if (found->is_string()) texts.push_back(found->get<std::string>());
  if (found->is_array()) {
    for (const Value& one : *found) {
      if (one.is_string()) texts.push_back(one.get<std::string>());
    }
  }
  return texts;
}

bool gives_org(const ClaimMapping& mapping, const Value& claims, std::string_view org) {
  if (!mapping.org.empty()) return mapping.org == org;
  return std::ranges::count(texts_at(claims, mapping.org_claim), org) > 0;
}

std::string text_claim(const Value& claims, const char* name) {
  const auto found = json::optional_string(claims, name);
  return found ? found->value_or("") : "";
}

}  // namespace

void add_role(Roles& roles, std::string_view name) {
  const auto set = [&](std::string_view text) {
    if (text == "PROVIDER_ADMIN") roles.provider_admin = true;
    if (text == "PROVIDER_VIEWER") roles.provider_viewer = true;
    if (text == "TENANT_ADMIN") roles.tenant_admin = true;
  };
  set(name);
  const auto end_of_word = name.find('_');
  if (end_of_word != std::string_view::npos && end_of_word > 0) set(name.substr(end_of_word + 1));
}

Result<Caller> caller_of(const jwt::Token& token, const RestIssuer& issuer, std::string_view org) {
  const Value& claims = *token.claims;
  for (const ClaimMapping& mapping : issuer.mappings) {
    if (!gives_org(mapping, claims, org)) continue;
    Caller caller;
    caller.subject = token.subject;
    caller.email = text_claim(claims, "email");
    caller.first_name = text_claim(claims, "given_name");
    caller.last_name = text_claim(claims, "family_name");
    caller.org = org;
    caller.service_account = mapping.service_account;
    for (const std::string& role : mapping.roles) add_role(caller.roles, role);
    for (const std::string& role : texts_at(claims, mapping.roles_claim)) {
      add_role(caller.roles, role);
    }
    if (mapping.service_account) {
      caller.roles.provider_admin = true;
      caller.roles.tenant_admin = true;
    }
    return caller;
  }
  return fail(Errc::kPermissionDenied,
              fmt::format("the user does not belong to org '{}'", printable(org)));
}

}  // namespace imex::partition
