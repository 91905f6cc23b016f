/// One description per record: its table, and its columns in order. Statements, parameters, rows
/// and the audit log are all made from it, so they cannot drift apart.
#pragma once

#include <string_view>

#include "partition/model/inventory.hpp"
#include "partition/model/reconciliation.hpp"
#include "partition/model/records.hpp"

namespace imex::partition {

template <class T>
struct Described;

template <>
struct Described<Tenant> {
  static constexpr std::string_view kTable = "tenant";
  static constexpr Kind kKind = Kind::kTenant;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("org", r.org);
    a("display_name", r.display_name);
    a("targeted_instance_creation", r.targeted_instance_creation);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<Provider> {
  static constexpr std::string_view kTable = "provider";
  static constexpr Kind kKind = Kind::kProvider;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("org", r.org);
    a("display_name", r.display_name);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<Site> {
  static constexpr std::string_view kTable = "site";
  static constexpr Kind kKind = Kind::kSite;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("provider_id", r.provider);
    a("name", r.name);
    a("description", r.description);
    a("native_networking", r.capabilities.native_networking);
    a("network_security_group", r.capabilities.network_security_group);
    a("nvlink_partition", r.capabilities.nvlink_partition);
    a("flow", r.capabilities.flow);
    a("image_based_operating_system", r.capabilities.image_based_operating_system);
    a("status", r.status);
    a("extra", r.extra_json);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<InstanceType> {
  static constexpr std::string_view kTable = "instance_type";
  static constexpr Kind kKind = Kind::kInstanceType;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("provider_id", r.provider);
    a("site_id", r.site);
    a("name", r.name);
    a("description", r.description);
    a("labels", r.labels);
    a("nvlink_gpus", r.nvlink_gpus);
    a("capabilities", r.capabilities_json);
    a("status", r.status);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<Allocation> {
  static constexpr std::string_view kTable = "allocation";
  static constexpr Kind kKind = Kind::kAllocation;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("name", r.name);
    a("description", r.description);
    a("provider_id", r.provider);
    a("tenant_id", r.tenant);
    a("site_id", r.site);
    a("instance_type_id", r.instance_type);
    a("machines", r.machines);
    a("status", r.status);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<Vpc> {
  static constexpr std::string_view kTable = "vpc";
  static constexpr Kind kKind = Kind::kVpc;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("tenant_id", r.tenant);
    a("site_id", r.site);
    a("name", r.name);
    a("description", r.description);
    a("labels", r.labels);
    a("default_partition_id", r.default_partition);
    a("network_virtualization_type", r.network_virtualization_type);
    a("status", r.status);
    a("extra", r.extra_json);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<LogicalPartition> {
  static constexpr std::string_view kTable = "logical_partition";
  static constexpr Kind kKind = Kind::kLogicalPartition;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("tenant_id", r.tenant);
    a("site_id", r.site);
    a("name", r.name);
    a("description", r.description);
    a("status", r.status);
    a("version", r.version);
    a("resiliency", r.resiliency);
    a("multicast_groups", r.multicast_groups);
    a.error(r.last_error);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<Instance> {
  static constexpr std::string_view kTable = "instance";
  static constexpr Kind kKind = Kind::kInstance;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("tenant_id", r.tenant);
    a("site_id", r.site);
    a("vpc_id", r.vpc);
    a("instance_type_id", r.instance_type);
    a("machine_id", r.machine);
    a("name", r.name);
    a("description", r.description);
    a("labels", r.labels);
    a("status", r.status);
    a("version", r.version);
    a("config_changed", r.config_changed);
    a("provisioned", r.provisioned);
    a("extra", r.extra_json);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<NvlinkInterface> {
  static constexpr std::string_view kTable = "nvlink_interface";
  static constexpr Kind kKind = Kind::kInterface;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("instance_id", r.instance);
    a("tenant_id", r.tenant);
    a("site_id", r.site);
    a("partition_id", r.partition);
    a("device_instance", r.device_instance);
    a("status", r.status);
    a("domain_id", r.domain);
    a("gpu_uid", r.gpu_uid);
    a.error(r.last_error);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<Machine> {
  static constexpr std::string_view kTable = "machine";
  static constexpr Kind kKind = Kind::kMachine;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("site_id", r.site);
    a("instance_type_id", r.instance_type);
    a("instance_id", r.instance);
    a("labels", r.labels);
    a("status", r.status);
    a("maintenance_message", r.maintenance_message);
    a("product_name", r.product_name);
    a("domain_id", r.domain);
    a("chassis_serial", r.chassis_serial);
    a("tray_index", r.tray_index);
    a("slot_id", r.slot_id);
    a("host_id", r.host_id);
    a("gpus", r.gpus);
    a("observed_at", r.observed_at);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<Domain> {
  static constexpr std::string_view kTable = "domain";
  static constexpr Kind kKind = Kind::kDomain;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("site_id", r.site);
    a("manager", r.manager);
    a("manager_version", r.manager_version);
    a("control_plane", r.control_plane);
    a("partitions_max", r.limits.partitions_max);
    a("multicast_groups_max", r.limits.multicast_groups_max);
    a("multicast_groups_free", r.limits.multicast_groups_free);
    a("observed_at", r.observed_at);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<Endpoint> {
  static constexpr std::string_view kTable = "endpoint";
  static constexpr Kind kKind = Kind::kEndpoint;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("site_id", r.site);
    a("protocol", r.protocol);
    a("url", r.url);
    a("chassis_serial", r.chassis_serial);
    a("tls_authority", r.tls_authority);
    a("verify_server", r.verify_server);
    a("has_credentials", r.has_credentials);
    a("domain_id", r.domain);
    a("state", r.state);
    a("last_contact", r.last_contact);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<PhysicalPartition> {
  static constexpr std::string_view kTable = "physical_partition";
  static constexpr Kind kKind = Kind::kPhysicalPartition;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("domain_id", r.domain);
    a("fabric_id", r.fabric_id);
    a("partition_id", r.partition);
    a("tenant_id", r.tenant);
    a("name", r.name);
    a("gpu_uids", r.gpu_uids);
    a("health", r.health);
    a("multicast_groups", r.multicast_groups);
    a("created", r.created);
    a("updated", r.updated);
  }
};

template <>
struct Described<OperationRecord> {
  static constexpr std::string_view kTable = "operation";
  static constexpr Kind kKind = Kind::kOperation;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("idempotency_key", r.idempotency_key);
    a("domain_id", r.domain);
    a("kind", r.kind);
    a("state", r.state);
    a("partition_id", r.partition);
    a("tenant_id", r.tenant);
    a("fabric_id", r.fabric_id);
    a("gpu_uids", r.gpu_uids);
    a("step_group", r.group);
    a("step", r.step);
    a("attempt", r.attempt);
    a("detail", r.detail);
    a("created", r.begun);
    a("finished", r.finished);
  }
};

template <>
struct Described<Reservation> {
  static constexpr std::string_view kTable = "reservation";
  static constexpr Kind kKind = Kind::kReservation;
  template <class A, class R>
  static void columns(A& a, R& r) {
    a("id", r.id);
    a("tenant_id", r.tenant);
    a("site_id", r.site);
    a("partition_id", r.partition);
    a("domain_id", r.domain);
    a("instance_type_id", r.instance_type);
    a("trays", r.trays);
    a("expires", r.expires);
    a("created", r.created);
    a("updated", r.updated);
  }
};

}  // namespace imex::partition
