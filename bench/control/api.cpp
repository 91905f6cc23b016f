#include "api.hpp"

#include <charconv>
#include <ctime>
#include <filesystem>

#include <fmt/format.h>

#include "json/json.hpp"
#include "os/file.hpp"

namespace imex::bench {
namespace {

using Value = nlohmann::json;

constexpr std::chrono::seconds kAnswerPatience{60};

/// "2026-03-01T12:00:00.123456Z" in nanoseconds since 1970. Errors: kDataLoss.
Result<std::int64_t> parse_rfc3339(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return fail(Errc::kDataLoss, fmt::format("'{}' is no time", text));
  std::int64_t ns = static_cast<std::int64_t>(::timegm(&parts)) * 1'000'000'000;
  if (*rest == '.') {
    std::int64_t unit = 100'000'000;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, unit /= 10) ns += (*rest - '0') * unit;
  }
  return ns;
}

/// The first number behind `key` in a file of /proc.
Result<std::uint64_t> number_in(const std::string& path, std::string_view key) {
  IMEX_TRY(const std::string text, os::read_file(path));
  auto at = text.find(key);
  if (at == std::string::npos) return fail(Errc::kInternal, fmt::format("{}: no {}", path, key));
  at = text.find_first_of("0123456789", at + key.size());
  std::uint64_t value = 0;
  if (at != std::string::npos) std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

}  // namespace

Result<Api> Api::connect(const ControlPlane& plane) {
  IMEX_TRY(auto http,
           net::http::Client::make({.url = plane.url() + "/v2/org/" + ControlPlane::kOrg + "/nico",
                                    .bearer_token = plane.token()}));
  return Api(std::move(http));
}

Result<net::http::ClientResponse> Api::call(net::http::Method method, const std::string& path,
                                            std::string body) {
  IMEX_TRY(auto answer, http_->send({.method = method, .path = path, .body = std::move(body)},
                                    std::chrono::steady_clock::now() + kAnswerPatience));
  if (answer.status < 200 || answer.status >= 300) {
    return fail(Errc::kFailedPrecondition,
                fmt::format("{} {}: the controller answers {}: {}", net::http::method_name(method),
                            path, answer.status, answer.body.substr(0, 400)));
  }
  return answer;
}

Result<Value> Api::get(const std::string& path) {
  IMEX_TRY(const auto answer, call(net::http::Method::kGet, path, {}));
  return json::parse(answer.body, path, {.bytes_max = 64U << 20U});
}

Result<Value> Api::post(const std::string& path, const Value& body) {
  IMEX_TRY(const auto answer, call(net::http::Method::kPost, path, json::text_of(body)));
  return json::parse(answer.body, path, {.bytes_max = 64U << 20U});
}

Result<std::uint64_t> Api::count(const std::string& path, const std::string& query) {
  IMEX_TRY(const auto answer,
           call(net::http::Method::kGet,
                fmt::format("{}?pageSize=1{}{}", path, query.empty() ? "" : "&", query), {}));
  const auto header = answer.headers.find("X-Pagination");
  if (!header) return fail(Errc::kDataLoss, path + ": no X-Pagination");
  IMEX_TRY(const auto pagination, json::parse(*header, "X-Pagination"));
  return json::required_u64(pagination, "total");
}

Result<std::vector<FabricOperation>> new_operations(Api& api, std::set<std::string>& known) {
  std::vector<FabricOperation> found;
  for (int page = 1;; ++page) {
    IMEX_TRY(const auto list,
             api.get(fmt::format("/nvlink-operation?pageSize=100&pageNumber={}", page)));
    if (!list.is_array()) return fail(Errc::kDataLoss, "/nvlink-operation: no list");
    for (const Value& each : list) {
      FabricOperation operation;
      IMEX_TRY(operation.id, json::required_string(each, "id"));
      if (!known.insert(operation.id).second) continue;
      IMEX_TRY(operation.kind, json::required_string(each, "kind"));
      IMEX_TRY(operation.state, json::required_string(each, "state"));
      IMEX_TRY(const std::string begun, json::required_string(each, "begun"));
      IMEX_TRY(operation.begun_ns, parse_rfc3339(begun));
      IMEX_TRY(const auto finished, json::optional_string(each, "finished"));
      if (finished) {
        IMEX_TRY(operation.finished_ns, parse_rfc3339(*finished));
      }
      found.push_back(std::move(operation));
    }
    if (list.size() < 100) return found;
  }
}

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<std::uint64_t> cpu_ns(std::int32_t pid) {
  std::uint64_t total = 0;
  std::error_code error;
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  for (std::filesystem::directory_iterator at(tasks, error), end; !error && at != end;
       at.increment(error)) {
    if (const auto ran = number_in(at->path().string() + "/schedstat", "")) total += *ran;
  }
  if (error) return fail(Errc::kNotFound, fmt::format("process {}: {}", pid, error.message()));
  return total;
}

Result<std::uint64_t> resident_bytes(std::int32_t pid) {
  IMEX_TRY(const auto kib, number_in(fmt::format("/proc/{}/status", pid), "VmRSS:"));
  return kib * 1024;
}

}  // namespace imex::bench
