#include "service_kit.hpp"

#include <algorithm>

namespace imex::partition::testing {

void ServiceTest::SetUp() {
  StoreTest::SetUp();
  world_ = make_world(store());
  service_ = std::make_unique<Service>(store());
  acme_ = {.subject = "alice", .email = {}, .first_name = {}, .last_name = {}, .org = "acme"};
  acme_.roles.tenant_admin = true;
  umbrella_ = acme_;
  umbrella_.subject = "albert";
  umbrella_.org = "umbrella";
  provider_ = acme_;
  provider_.subject = "paul";
  provider_.org = "nvidia";
  provider_.roles = {.provider_admin = true};
}

Reply ServiceTest::call(const Caller& caller, std::string_view name, std::vector<std::string> path,
                        const std::string& body, Parameters query) {
  const auto operations = Service::operations();
  const auto operation = std::find_if(operations.begin(), operations.end(),
                                      [&](const Operation& o) { return o.name == name; });
  if (operation == operations.end()) {
    ADD_FAILURE() << "no operation " << name;
    return {};
  }
  const Request request{caller, std::move(path), Query(std::move(query)), body};
  const Answer answer = (service_.get()->*operation->run)(request);
  Reply reply{answer.status, nullptr, nullptr};
  if (answer.content_type == "application/json") {
    reply.body = nlohmann::json::parse(answer.body, nullptr, false);
    EXPECT_FALSE(reply.body.is_discarded()) << name << ": " << answer.body;
  } else {
    EXPECT_EQ(answer.content_type, "text/plain");
    reply.body = answer.body;
  }
  if (!answer.pagination.empty()) reply.pagination = nlohmann::json::parse(answer.pagination);
  if (answer.status >= 400) {
    EXPECT_EQ(reply.body.value("source", ""), "nico") << name;
    EXPECT_TRUE(reply.body.contains("message")) << name;
    EXPECT_TRUE(reply.body.contains("data") &&
                (reply.body["data"].is_null() || reply.body["data"].is_object()))
        << name;
    EXPECT_NE(answer.status, 500) << name << ": " << answer.body;
  }
  return reply;
}

void ServiceTest::observe(std::uint32_t trays) {
  must(store().write_observation(term(), world_.endpoint.id,
                                 rack_view(world_, trays, at_second(++second_))));
  WriteBack clean{.domain = world_.domain};
  for (std::uint32_t tray = 0; tray < trays; ++tray)
    clean.machines.push_back({machine_of(tray), Status::kReady, "seen clean"});
  must(store().write_back(term(), clean));
}

void ServiceTest::converge() {
  const DesiredDomain desired = must(store().desired(world_.domain));
  WriteBack done{.domain = world_.domain};
  for (const DesiredMachine& machine : desired.machines) {
    for (const DesiredGpu& gpu : machine.gpus) {
      if (gpu.interface)
        done.interfaces.push_back({.id = *gpu.interface,
                                   .status = Status::kReady,
                                   .domain = world_.domain,
                                   .gpu_uid = gpu.uid});
      for (const InterfaceId& id : gpu.leaving) done.interfaces.push_back({.id = id, .gone = true});
    }
    if (machine.instance)
      done.instances.push_back({.id = *machine.instance,
                                .version = machine.instance_version,
                                .status = Status::kReady,
                                .gone = machine.instance_status == Status::kTerminating});
  }
  must(store().write_back(term(), done));
}

std::string ServiceTest::make_partition(const std::string& name) {
  const Reply reply =
      call("create-nvlink-logical-partition", {},
           nlohmann::json{{"name", name}, {"siteId", world_.site.id.to_string()}}.dump());
  EXPECT_EQ(reply.status, 201) << reply.body;
  return reply.body.value("id", "");
}

std::string ServiceTest::make_vpc(const std::string& name, const std::string& default_partition) {
  nlohmann::json body{{"name", name}, {"siteId", world_.site.id.to_string()}};
  if (!default_partition.empty()) body["nvLinkLogicalPartitionId"] = default_partition;
  const Reply reply = call("create-vpc", {}, body.dump());
  EXPECT_EQ(reply.status, 201) << reply.body;
  return reply.body.value("id", "");
}

nlohmann::json ServiceTest::instance_body(const std::string& name, const std::string& vpc,
                                          const nlohmann::json& more) {
  nlohmann::json body{
      {"name", name},           {"tenantId", world_.tenant.id.to_string()},
      {"vpcId", vpc},           {"instanceTypeId", world_.type.id.to_string()},
      {"ipxeScript", "#!ipxe"}, {"interfaces", {{{"subnetId", world_.site.id.to_string()}}}}};
  body.merge_patch(more);
  return body;
}

std::string ServiceTest::make_instance(const std::string& name, const std::string& vpc,
                                       const nlohmann::json& more) {
  const Reply reply = call("create-instance", {}, instance_body(name, vpc, more).dump());
  EXPECT_EQ(reply.status, 201) << reply.body;
  return reply.body.value("id", "");
}

nlohmann::json ServiceTest::interfaces(const std::string& partition, std::vector<int> devices) {
  nlohmann::json list = nlohmann::json::array();
  for (const int device : devices)
    list.push_back({{"nvLinkLogicalPartitionId", partition}, {"deviceInstance", device}});
  return {{"nvLinkInterfaces", list}};
}

}  // namespace imex::partition::testing
