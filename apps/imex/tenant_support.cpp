#include "tenant_support.hpp"

#include <fmt/format.h>

#include "base/units.hpp"

namespace imex::cli {

Result<std::map<std::string, std::string>> parse_labels(const std::vector<std::string>& words) {
  std::map<std::string, std::string> labels;
  for (const std::string& word : words) {
    const auto at = word.find('=');
    if (at == std::string::npos || at == 0) {
      return fail(Errc::kInvalidArgument, fmt::format("--label '{}': want KEY=VALUE", word));
    }
    labels[word.substr(0, at)] = word.substr(at + 1);
  }
  return labels;
}

Result<Nanos> wait_time(const TenantOptions& options) {
  constexpr std::chrono::hours kWaitMax{24};
  const auto time = parse_duration(options.wait_timeout);
  if (!time || *time <= Nanos::zero() || *time > kWaitMax) {
    return fail(Errc::kInvalidArgument,
                fmt::format("--wait-timeout '{}' is no time up to 24h", options.wait_timeout),
                "for example 30s, 5m");
  }
  return *time;
}

}  // namespace imex::cli
