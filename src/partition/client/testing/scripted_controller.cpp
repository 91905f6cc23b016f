#include "partition/client/testing/scripted_controller.hpp"

#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace imex::partition::client {

ScriptedController::ScriptedController(Script script) : script_(std::move(script)) {
  net::http::Router router;
  const auto handler = [this](const net::http::Request& request) { return answer(request); };
  using net::http::Method;
  for (const Method method : {Method::kGet, Method::kPost, Method::kPatch, Method::kDelete})
    router.add(method, "/{path...}", handler);
  auto server = net::http::Server::start({.listeners = {{.address = "127.0.0.1:0"}}, .threads = 2},
                                         std::move(router));
  EXPECT_TRUE(server) << server.error().to_string();
  server_ = std::move(*server);
}

ScriptedController::~ScriptedController() { server_->stop({}); }

std::string ScriptedController::url() const {
  return fmt::format("http://127.0.0.1:{}", server_->port());
}

std::unique_ptr<Client> ScriptedController::client() const {
  Options options;
  options.url = url();
  options.org = "acme";
  options.token = log::Secret("t0ken");
  options.timeout = std::chrono::seconds(20);
  auto made = Client::make(std::move(options));
  EXPECT_TRUE(made);
  return std::move(*made);
}

std::vector<ScriptedController::Asked> ScriptedController::asked() const {
  const MutexLock lock(mutex_);
  return asked_;
}

net::http::Response ScriptedController::answer(const net::http::Request& request) {
  EXPECT_TRUE(request.target.starts_with(kBase)) << request.target;
  const Asked asked{request.method, request.target.substr(kBase.size()), request.body,
                    std::string(request.headers.find("Authorization").value_or(""))};
  {
    const MutexLock lock(mutex_);
    asked_.push_back(asked);
  }
  return script_(asked);
}

net::http::Response list_of(const std::string& items, std::size_t total) {
  auto response = net::http::Response::json(200, "[" + items + "]");
  response.headers.add(
      "X-Pagination",
      fmt::format(R"({{"pageNumber":1,"pageSize":100,"total":{},"orderBy":null}})", total));
  return response;
}

std::string uuid_text(unsigned number) {
  return fmt::format("00000000-0000-4000-8000-{:012x}", number);
}
Uuid uuid_of(unsigned number) { return *Uuid::parse(uuid_text(number)); }

std::string partition_json(unsigned number, const std::string& name, const std::string& status) {
  return fmt::format(
      R"({{"id":"{}","name":"{}","description":null,"siteId":"{}","tenantId":"{}",)"
      R"("nvLinkLogicalPartitionStats":{{"totalGpus":4,"totalDistinctInstances":1}},)"
      R"("status":"{}","statusHistory":[{{"status":"{}","message":"as told","created":"c","updated":"u"}}],)"
      R"("created":"2026-03-01T12:00:00Z","updated":"2026-03-01T12:00:00Z"}})",
      uuid_text(number), name, uuid_text(900), uuid_text(901), status, status);
}

std::string interface_json(unsigned number, unsigned instance, unsigned partition, unsigned device,
                           const std::string& status, const std::string& domain,
                           const std::string& uid) {
  return fmt::format(
      R"({{"id":"{}","instanceId":"{}","nvLinkLogicalPartitionId":"{}","nvLinklogicalPartitionId":"{}",)"
      R"("nvLinkDomainId":{},"deviceInstance":{},"gpuGuid":{},"status":"{}","created":"c","updated":"u"}})",
      uuid_text(number), uuid_text(instance), uuid_text(partition), uuid_text(partition), domain,
      device, uid, status);
}

std::string instance_json(unsigned number, const std::string& name, const std::string& status,
                          const std::string& interfaces) {
  return fmt::format(
      R"({{"id":"{}","name":"{}","description":null,"tenantId":"{}","siteId":"{}","vpcId":"{}",)"
      R"("instanceTypeId":null,"machineId":"tray-7","labels":{{"team":"a"}},"status":"{}",)"
      R"("interfaces":[],"nvLinkInterfaces":[{}],"statusHistory":[],"created":"c","updated":"u"}})",
      uuid_text(number), name, uuid_text(901), uuid_text(900), uuid_text(902), status, interfaces);
}

}  // namespace imex::partition::client
