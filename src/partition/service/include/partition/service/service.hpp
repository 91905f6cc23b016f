/// The operations of the REST API without HTTP: who asks, for what, with which body; and the
/// answer. Validation, tenant binding, state transitions and error bodies are here; routes, tokens
/// and sockets are in partition/rest.
///
///     for (const Operation& operation : Service::operations()) route(operation.method, ...);
///     Answer answer = (service.*operation.run)(request);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partition/model/ids.hpp"
#include "partition/store/store.hpp"

namespace imex::partition {

/// What a token entitles to.
struct Roles {
  bool provider_admin = false;
  bool provider_viewer = false;
  bool tenant_admin = false;
};

/// Whose token it is. That the signature holds and that the user belongs to `org` was checked
/// before.
struct Caller {
  std::string subject{};  ///< stands in the audit log
  std::string email{}, first_name{}, last_name{};
  std::string org{};
  Roles roles{};
  bool service_account = false;  ///< has both admin roles
};

/// The query string, decoded, in order; names match exactly.
class Query {
 public:
  Query() = default;
  explicit Query(std::vector<std::pair<std::string, std::string>> parameters)
      : parameters_(std::move(parameters)) {}

  /// The first value; nothing if the parameter is absent.
  [[nodiscard]] std::optional<std::string_view> one(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> all(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> parameters_;
};

struct Request {
  Caller caller;
  std::vector<std::string> path;  ///< values of {…} in the path, after {org}, decoded
  Query query;
  std::string_view body;
};

struct Answer {
  int status = 200;
  std::string body{};
  std::string content_type = "application/json";
  std::string pagination{};  ///< value of X-Pagination; empty: no such header
};

struct ServiceOptions {
  std::string version = "0.3.0";  ///< plain semantic version; NICo's SDK wants 0.2.86 at least
  std::string build_time{};
  /// An observation older than this says nothing: states become unknown. Three intervals of the
  /// reconciler.
  std::chrono::seconds observation_valid{180};
};

class Service;

/// A row of the API: "GET", "/vpc/{id}" (below the org), and what runs. `name` is the operation's
/// id in the OpenAPI document.
struct Operation {
  std::string_view method;
  std::string_view path;
  std::string_view name;
  Answer (Service::*run)(const Request&);
};

/// Thread-safe; calls block for a transaction of the store, so call from a worker thread. With
/// many connections give writers many threads: writes that wait together are committed together.
class Service {
 public:
  explicit Service(Store& store, ServiceOptions options = {});

  /// Every operation. Fixed paths come before those with {…} in the same place.
  [[nodiscard]] static std::span<const Operation> operations();

  /// An error body in the API's form: for 404, 401, 413, 429 and whatever HTTP itself refuses.
  /// `data_json`: an object or "null".
  [[nodiscard]] static Answer error(int status, std::string_view message,
                                    std::string_view data_json = "null");

  // Logical partitions (2.5), and who of one can share memory (8.2)
  Answer create_partition(const Request& request);
  Answer list_partitions(const Request& request);
  Answer get_partition(const Request& request);
  Answer update_partition(const Request& request);
  Answer delete_partition(const Request& request);
  Answer list_sharing_groups(const Request& request);

  // NVLink interfaces (2.6)
  Answer list_interfaces(const Request& request);
  Answer list_instance_interfaces(const Request& request);

  // VPCs (2.7)
  Answer create_vpc(const Request& request);
  Answer list_vpcs(const Request& request);
  Answer get_vpc(const Request& request);
  Answer update_vpc(const Request& request);
  Answer update_vpc_virtualization(const Request& request);
  Answer delete_vpc(const Request& request);

  // Instances (2.8, 2.9)
  Answer create_instance(const Request& request);
  Answer create_instance_batch(const Request& request);
  Answer list_instances(const Request& request);
  Answer get_instance(const Request& request);
  Answer get_instance_history(const Request& request);
  Answer update_instance(const Request& request);
  Answer delete_instance(const Request& request);

  // Who is asking (2.10)
  Answer get_metadata(const Request& request);
  Answer get_user(const Request& request);
  Answer get_tenant(const Request& request);
  Answer get_tenant_stats(const Request& request);
  Answer get_provider(const Request& request);
  Answer get_provider_stats(const Request& request);
  Answer get_service_account(const Request& request);

  // Sites, machines, types, allocations (2.10)
  Answer create_site(const Request& request);
  Answer list_sites(const Request& request);
  Answer get_site(const Request& request);
  Answer get_site_history(const Request& request);
  Answer update_site(const Request& request);
  Answer delete_site(const Request& request);
  Answer list_machines(const Request& request);
  Answer get_machine(const Request& request);
  Answer get_machine_history(const Request& request);
  Answer update_machine(const Request& request);
  Answer delete_machine(const Request& request);
  Answer get_gpu_stats(const Request& request);
  Answer create_instance_type(const Request& request);
  Answer list_instance_types(const Request& request);
  Answer get_instance_type(const Request& request);
  Answer update_instance_type(const Request& request);
  Answer delete_instance_type(const Request& request);
  Answer add_type_machines(const Request& request);
  Answer list_type_machines(const Request& request);
  Answer remove_type_machine(const Request& request);
  Answer create_allocation(const Request& request);
  Answer list_allocations(const Request& request);
  Answer get_allocation(const Request& request);
  Answer update_allocation(const Request& request);
  Answer delete_allocation(const Request& request);
  /// Resources that this controller has none of: subnets, prefixes, operating systems, keys.
  Answer list_nothing(const Request& request);

  // Insight and control that NICo has not (section 8)
  Answer create_endpoint(const Request& request);
  Answer list_endpoints(const Request& request);
  Answer get_endpoint(const Request& request);
  Answer update_endpoint(const Request& request);
  Answer delete_endpoint(const Request& request);
  Answer list_domains(const Request& request);
  Answer get_domain(const Request& request);
  Answer list_physical_partitions(const Request& request);
  Answer list_operations(const Request& request);
  Answer get_operation(const Request& request);
  Answer create_reservation(const Request& request);
  Answer list_reservations(const Request& request);
  Answer get_reservation(const Request& request);
  Answer delete_reservation(const Request& request);
  Answer get_health(const Request& request);
  Answer list_audit_records(const Request& request);

 private:
  Store& store_;
  const ServiceOptions options_;
};

}  // namespace imex::partition
