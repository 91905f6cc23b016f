/// The controller's API as JSON, for what the tenant's client has no call for.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "bench/control/control_plane.hpp"
#include "net/http/client.hpp"

namespace imex::bench {

class Api {
 public:
  [[nodiscard]] static Result<Api> connect(const ControlPlane& plane);

  /// Errors: a status that is not 2xx is kFailedPrecondition, with the answer.
  [[nodiscard]] Result<nlohmann::json> get(const std::string& path);
  [[nodiscard]] Result<nlohmann::json> post(const std::string& path, const nlohmann::json& body);
  /// How many objects a list has; `query` behind the '?'.
  [[nodiscard]] Result<std::uint64_t> count(const std::string& path, const std::string& query);

 private:
  explicit Api(std::unique_ptr<net::http::Client> http) : http_(std::move(http)) {}
  [[nodiscard]] Result<net::http::ClientResponse> call(net::http::Method method,
                                                       const std::string& path, std::string body);
  std::unique_ptr<net::http::Client> http_;
};

/// Operations on the fabric, from the controller's journal.
struct FabricOperation {
  std::string id, kind, state;
  std::int64_t begun_ns = 0, finished_ns = 0;  ///< since 1970; 0: not finished
};
/// Those whose ids are not in `known`, which they join.
[[nodiscard]] Result<std::vector<FabricOperation>> new_operations(Api& api,
                                                                  std::set<std::string>& known);

/// CLOCK_REALTIME.
[[nodiscard]] std::int64_t wall_ns();
/// Nanoseconds that all threads of a process have run.
[[nodiscard]] Result<std::uint64_t> cpu_ns(std::int32_t pid);
[[nodiscard]] Result<std::uint64_t> resident_bytes(std::int32_t pid);

}  // namespace imex::bench
