/// The JSON of every object, with the keys and quirks of partition-api.md section 2.
#pragma once

#include <vector>

#include "context.hpp"
#include "partition/model/json_writer.hpp"

namespace imex::partition {

/// statusHistory: newest first, at most `limit`.
[[nodiscard]] Checked<void> render_history(ReadTransaction& t, JsonWriter& json, Kind kind,
                                           const std::string& id, std::uint64_t limit = 20);

// Summaries, as relations
void render_tenant_summary(JsonWriter& json, const Tenant& tenant);
[[nodiscard]] Checked<void> render_site_summary(ReadTransaction& t, JsonWriter& json,
                                                const SiteId& site);
[[nodiscard]] Checked<void> render_partition_summary(ReadTransaction& t, JsonWriter& json,
                                                     const LogicalPartitionId& partition);
void render_vpc_summary(JsonWriter& json, const Vpc& vpc);
void render_instance_summary(JsonWriter& json, const Instance& instance);

struct PartitionParts {
  bool interfaces = false, stats = false, vpcs = false, site = false, tenant = false;
};
[[nodiscard]] Checked<void> render_partition(ReadTransaction& t, JsonWriter& json,
                                             const LogicalPartition& partition,
                                             const Tenant& tenant, const PartitionParts& parts);
/// Object of 2.6; `extra` writes relations before the object is closed.
void render_interface_members(JsonWriter& json, const NvlinkInterface& interface);
void render_interface(JsonWriter& json, const NvlinkInterface& interface);

[[nodiscard]] Checked<void> render_vpc(ReadTransaction& t, JsonWriter& json, const Vpc& vpc,
                                       const Tenant& tenant, const Relations& relations);
/// `interfaces`: rows of this instance, the deleting ones included.
[[nodiscard]] Checked<void> render_instance(ReadTransaction& t, JsonWriter& json,
                                            const Instance& instance,
                                            const std::vector<NvlinkInterface>& interfaces,
                                            const Tenant& tenant, const Relations& relations);
[[nodiscard]] Checked<void> render_site(ReadTransaction& t, JsonWriter& json, const Site& site,
                                        const std::string& org);
[[nodiscard]] Checked<void> render_machine(ReadTransaction& t, JsonWriter& json,
                                           const Machine& machine, const ProviderId& provider,
                                           bool for_provider);
[[nodiscard]] Checked<void> render_instance_type(ReadTransaction& t, JsonWriter& json,
                                                 const InstanceType& type);
[[nodiscard]] Checked<void> render_allocation(ReadTransaction& t, JsonWriter& json,
                                              const Allocation& allocation);
void render_endpoint(JsonWriter& json, const Endpoint& endpoint, WallTime now);
void render_physical(JsonWriter& json, const PhysicalPartition& partition);
void render_operation(JsonWriter& json, const OperationRecord& operation);
/// A step that a dry run foresees: it has no id and no times.
void render_step(JsonWriter& json, const OperationRecord& operation);
void render_reservation(JsonWriter& json, const Reservation& reservation);

/// Writes kept fields of `extra_json` as members: each of `fields`, with its default where nothing
/// was kept.
struct KeptField {
  std::string_view name;
  std::string_view default_json;
};
void render_kept(JsonWriter& json, const std::string& extra_json,
                 std::initializer_list<KeptField> fields);

}  // namespace imex::partition
