/// For tests: an HTTP server that answers as the test says and notes what it was asked.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/mutex.hpp"
#include "net/http/server.hpp"
#include "partition/client/client.hpp"

namespace imex::partition::client {

class ScriptedController {
 public:
  struct Asked {
    net::http::Method method;
    std::string target;  ///< behind the base path, with the query
    std::string body, authorization;
  };
  using Script = std::function<net::http::Response(const Asked&)>;

  explicit ScriptedController(Script script) : script_(std::move(script)) {
    net::http::Router router;
    const auto handler = [this](const net::http::Request& request) { return answer(request); };
    using net::http::Method;
    for (const Method method : {Method::kGet, Method::kPost, Method::kPatch, Method::kDelete})
      router.add(method, "/{path...}", handler);
    auto server = net::http::Server::start(
        {.listeners = {{.address = "127.0.0.1:0"}}, .threads = 2}, std::move(router));
    EXPECT_TRUE(server) << server.error().to_string();
    server_ = std::move(*server);
  }
  ~ScriptedController() { server_->stop({}); }
  ScriptedController(const ScriptedController&) = delete;
  ScriptedController& operator=(const ScriptedController&) = delete;

  [[nodiscard]] std::string url() const {
    return fmt::format("http://127.0.0.1:{}", server_->port());
  }
  [[nodiscard]] std::unique_ptr<Client> client() const {
    auto made = Client::make({.url = url(),
                              .org = "acme",
                              .token = log::Secret("t0ken"),
                              .timeout = std::chrono::seconds(20)});
    EXPECT_TRUE(made);
    return std::move(*made);
  }
  [[nodiscard]] std::vector<Asked> asked() const {
    const MutexLock lock(mutex_);
    return asked_;
  }

  static constexpr std::string_view kBase = "/v2/org/acme/nico";

 private:
  net::http::Response answer(const net::http::Request& request) {
    EXPECT_TRUE(request.target.starts_with(kBase)) << request.target;
    const std::string authorization(request.headers.find("Authorization").value_or(""));
    const Asked asked{request.method, request.target.substr(kBase.size()), request.body,
                      authorization};
    {
      const MutexLock lock(mutex_);
      asked_.push_back(asked);
    }
    return script_(asked);
  }

  Script script_;
  mutable Mutex mutex_;
  std::vector<Asked> asked_ IMEX_GUARDED_BY(mutex_);
  std::unique_ptr<net::http::Server> server_;
};

inline net::http::Response list_of(std::string items, std::size_t total) {
  auto response = net::http::Response::json(200, "[" + std::move(items) + "]");
  response.headers.add(
      "X-Pagination",
      fmt::format(R"({{"pageNumber":1,"pageSize":100,"total":{},"orderBy":null}})", total));
  return response;
}

inline std::string uuid_text(unsigned number) {
  return fmt::format("00000000-0000-4000-8000-{:012x}", number);
}
inline Uuid uuid_of(unsigned number) { return *Uuid::parse(uuid_text(number)); }

inline std::string partition_json(unsigned number, const std::string& name,
                                  const std::string& status = "Ready") {
  return fmt::format(
      R"({{"id":"{}","name":"{}","description":null,"siteId":"{}","tenantId":"{}",)"
      R"("nvLinkLogicalPartitionStats":{{"totalGpus":4,"totalDistinctInstances":1}},)"
      R"("status":"{}","statusHistory":[{{"status":"{}","message":"as told","created":"c","updated":"u"}}],)"
      R"("created":"2026-03-01T12:00:00Z","updated":"2026-03-01T12:00:00Z"}})",
      uuid_text(number), name, uuid_text(900), uuid_text(901), status, status);
}

inline std::string interface_json(unsigned number, unsigned instance, unsigned partition,
                                  unsigned device, const std::string& status,
                                  const std::string& domain = "null",
                                  const std::string& uid = "null") {
  return fmt::format(
      R"({{"id":"{}","instanceId":"{}","nvLinkLogicalPartitionId":"{}","nvLinklogicalPartitionId":"{}",)"
      R"("nvLinkDomainId":{},"deviceInstance":{},"gpuGuid":{},"status":"{}","created":"c","updated":"u"}})",
      uuid_text(number), uuid_text(instance), uuid_text(partition), uuid_text(partition), domain,
      device, uid, status);
}

inline std::string instance_json(unsigned number, const std::string& name,
                                 const std::string& status, const std::string& interfaces) {
  return fmt::format(
      R"({{"id":"{}","name":"{}","description":null,"tenantId":"{}","siteId":"{}","vpcId":"{}",)"
      R"("instanceTypeId":null,"machineId":"tray-7","labels":{{"team":"a"}},"status":"{}",)"
      R"("interfaces":[],"nvLinkInterfaces":[{}],"statusHistory":[],"created":"c","updated":"u"}})",
      uuid_text(number), name, uuid_text(901), uuid_text(900), uuid_text(902), status, interfaces);
}

}  // namespace imex::partition::client
