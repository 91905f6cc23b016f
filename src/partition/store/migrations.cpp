#include "migrations.hpp"

#include <array>
#include <string>

#include <fmt/format.h>

namespace imex::partition {
namespace {

// One column type for text and one for numbers, so that both databases take the same statements.
// Times are microseconds since 1970, UUIDs their text, GPU uids the 64 bits as a signed number.
// Names are unique by index and not by a look before: two requests cannot both win.
constexpr std::string_view kInitialSchema = R"sql(
CREATE TABLE tenant (
  id TEXT PRIMARY KEY, org TEXT NOT NULL UNIQUE, display_name TEXT NOT NULL,
  targeted_instance_creation BIGINT NOT NULL, created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE TABLE provider (
  id TEXT PRIMARY KEY, org TEXT NOT NULL UNIQUE, display_name TEXT NOT NULL,
  created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE TABLE site (
  id TEXT PRIMARY KEY, provider_id TEXT NOT NULL REFERENCES provider(id), name TEXT NOT NULL,
  description TEXT, native_networking BIGINT NOT NULL, network_security_group BIGINT NOT NULL,
  nvlink_partition BIGINT NOT NULL, flow BIGINT NOT NULL,
  image_based_operating_system BIGINT NOT NULL, status TEXT NOT NULL, extra TEXT NOT NULL,
  created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE UNIQUE INDEX site_name ON site (provider_id, name);
CREATE TABLE instance_type (
  id TEXT PRIMARY KEY, provider_id TEXT NOT NULL REFERENCES provider(id),
  site_id TEXT NOT NULL REFERENCES site(id), name TEXT NOT NULL, description TEXT,
  labels TEXT NOT NULL, nvlink_gpus BIGINT NOT NULL, capabilities TEXT NOT NULL,
  status TEXT NOT NULL, created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE UNIQUE INDEX instance_type_name ON instance_type (site_id, name);
CREATE TABLE allocation (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT,
  provider_id TEXT NOT NULL REFERENCES provider(id), tenant_id TEXT NOT NULL REFERENCES tenant(id),
  site_id TEXT NOT NULL REFERENCES site(id),
  instance_type_id TEXT NOT NULL REFERENCES instance_type(id), machines BIGINT NOT NULL,
  status TEXT NOT NULL, created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE UNIQUE INDEX allocation_name ON allocation (tenant_id, site_id, name);
CREATE INDEX allocation_type ON allocation (instance_type_id);
CREATE TABLE logical_partition (
  id TEXT PRIMARY KEY, tenant_id TEXT NOT NULL REFERENCES tenant(id),
  site_id TEXT NOT NULL REFERENCES site(id), name TEXT NOT NULL, description TEXT,
  status TEXT NOT NULL, version BIGINT NOT NULL, resiliency TEXT NOT NULL,
  multicast_groups BIGINT NOT NULL, error TEXT, error_at BIGINT, error_count BIGINT NOT NULL,
  created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE UNIQUE INDEX logical_partition_name ON logical_partition (tenant_id, name);
CREATE INDEX logical_partition_created ON logical_partition (tenant_id, created, id);
CREATE INDEX logical_partition_status ON logical_partition (status);
CREATE TABLE vpc (
  id TEXT PRIMARY KEY, tenant_id TEXT NOT NULL REFERENCES tenant(id),
  site_id TEXT NOT NULL REFERENCES site(id), name TEXT NOT NULL, description TEXT,
  labels TEXT NOT NULL, default_partition_id TEXT REFERENCES logical_partition(id),
  network_virtualization_type TEXT NOT NULL, status TEXT NOT NULL, extra TEXT NOT NULL,
  created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE UNIQUE INDEX vpc_name ON vpc (tenant_id, site_id, name);
CREATE INDEX vpc_created ON vpc (tenant_id, created, id);
CREATE INDEX vpc_default ON vpc (default_partition_id);
CREATE TABLE domain (
  id TEXT PRIMARY KEY, site_id TEXT NOT NULL REFERENCES site(id), manager TEXT NOT NULL,
  manager_version TEXT NOT NULL, control_plane TEXT NOT NULL, partitions_max BIGINT NOT NULL,
  multicast_groups_max BIGINT NOT NULL, multicast_groups_free BIGINT NOT NULL,
  observed_at BIGINT, created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE TABLE machine (
  id TEXT PRIMARY KEY, site_id TEXT NOT NULL REFERENCES site(id),
  instance_type_id TEXT REFERENCES instance_type(id), instance_id TEXT, labels TEXT NOT NULL,
  status TEXT NOT NULL, maintenance_message TEXT NOT NULL, product_name TEXT NOT NULL,
  domain_id TEXT REFERENCES domain(id), chassis_serial TEXT NOT NULL, tray_index BIGINT NOT NULL,
  slot_id BIGINT NOT NULL, host_id BIGINT NOT NULL, gpus TEXT NOT NULL, observed_at BIGINT,
  created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE INDEX machine_free ON machine (instance_type_id, status);
CREATE INDEX machine_domain ON machine (domain_id);
CREATE TABLE instance (
  id TEXT PRIMARY KEY, tenant_id TEXT NOT NULL REFERENCES tenant(id),
  site_id TEXT NOT NULL REFERENCES site(id), vpc_id TEXT NOT NULL REFERENCES vpc(id),
  instance_type_id TEXT REFERENCES instance_type(id),
  machine_id TEXT NOT NULL REFERENCES machine(id), name TEXT NOT NULL, description TEXT,
  labels TEXT NOT NULL, status TEXT NOT NULL, version BIGINT NOT NULL,
  config_changed BIGINT NOT NULL, provisioned BIGINT NOT NULL, extra TEXT NOT NULL,
  created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE UNIQUE INDEX instance_name ON instance (tenant_id, site_id, name);
CREATE UNIQUE INDEX instance_machine ON instance (machine_id);
CREATE INDEX instance_created ON instance (tenant_id, created, id);
CREATE INDEX instance_vpc ON instance (vpc_id);
CREATE INDEX instance_of_type ON instance (tenant_id, instance_type_id);
CREATE TABLE nvlink_interface (
  id TEXT PRIMARY KEY, instance_id TEXT NOT NULL REFERENCES instance(id),
  tenant_id TEXT NOT NULL REFERENCES tenant(id), site_id TEXT NOT NULL REFERENCES site(id),
  partition_id TEXT NOT NULL REFERENCES logical_partition(id), device_instance BIGINT NOT NULL,
  status TEXT NOT NULL, domain_id TEXT, gpu_uid BIGINT, error TEXT, error_at BIGINT,
  error_count BIGINT NOT NULL, created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE UNIQUE INDEX nvlink_interface_live ON nvlink_interface (instance_id, device_instance)
  WHERE status <> 'Deleting';
CREATE INDEX nvlink_interface_instance ON nvlink_interface (instance_id);
CREATE INDEX nvlink_interface_partition ON nvlink_interface (partition_id);
CREATE INDEX nvlink_interface_domain ON nvlink_interface (domain_id);
CREATE INDEX nvlink_interface_created ON nvlink_interface (tenant_id, created, id);
CREATE TABLE endpoint (
  id TEXT PRIMARY KEY, site_id TEXT NOT NULL REFERENCES site(id), protocol BIGINT NOT NULL,
  url TEXT NOT NULL UNIQUE, chassis_serial TEXT NOT NULL, tls_authority TEXT NOT NULL,
  verify_server BIGINT NOT NULL, has_credentials BIGINT NOT NULL, domain_id TEXT,
  state TEXT NOT NULL, last_contact BIGINT, created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE TABLE endpoint_credentials (
  endpoint_id TEXT PRIMARY KEY REFERENCES endpoint(id), sealed TEXT NOT NULL);
CREATE TABLE physical_partition (
  id TEXT PRIMARY KEY, domain_id TEXT NOT NULL REFERENCES domain(id), fabric_id BIGINT NOT NULL,
  partition_id TEXT NOT NULL REFERENCES logical_partition(id),
  tenant_id TEXT NOT NULL REFERENCES tenant(id), name TEXT NOT NULL, gpu_uids TEXT NOT NULL,
  health TEXT NOT NULL, multicast_groups BIGINT NOT NULL, created BIGINT NOT NULL,
  updated BIGINT NOT NULL);
CREATE UNIQUE INDEX physical_partition_fabric ON physical_partition (domain_id, fabric_id);
CREATE UNIQUE INDEX physical_partition_logical ON physical_partition (partition_id, domain_id);
CREATE TABLE observed_partition (
  domain_id TEXT NOT NULL REFERENCES domain(id), fabric_id BIGINT NOT NULL, name TEXT NOT NULL,
  gpu_uids TEXT NOT NULL, health TEXT NOT NULL, multicast_groups BIGINT NOT NULL,
  PRIMARY KEY (domain_id, fabric_id));
CREATE TABLE operation (
  id TEXT PRIMARY KEY, idempotency_key TEXT NOT NULL UNIQUE, domain_id TEXT NOT NULL,
  kind TEXT NOT NULL, state TEXT NOT NULL, partition_id TEXT, tenant_id TEXT,
  fabric_id BIGINT NOT NULL, gpu_uids TEXT NOT NULL, step_group TEXT NOT NULL,
  step BIGINT NOT NULL, attempt BIGINT NOT NULL, detail TEXT NOT NULL, created BIGINT NOT NULL,
  finished BIGINT);
CREATE INDEX operation_open ON operation (domain_id, state);
CREATE INDEX operation_tenant ON operation (tenant_id, created, id);
CREATE INDEX operation_created ON operation (created);
CREATE TABLE reservation (
  id TEXT PRIMARY KEY, tenant_id TEXT NOT NULL REFERENCES tenant(id),
  site_id TEXT NOT NULL REFERENCES site(id),
  partition_id TEXT NOT NULL REFERENCES logical_partition(id),
  domain_id TEXT NOT NULL REFERENCES domain(id),
  instance_type_id TEXT NOT NULL REFERENCES instance_type(id), trays BIGINT NOT NULL,
  expires BIGINT NOT NULL, created BIGINT NOT NULL, updated BIGINT NOT NULL);
CREATE INDEX reservation_domain ON reservation (domain_id, expires);
CREATE INDEX reservation_partition ON reservation (partition_id);
CREATE TABLE status_detail (
  kind BIGINT NOT NULL, entity_id TEXT NOT NULL, number BIGINT NOT NULL, status TEXT NOT NULL,
  message TEXT NOT NULL, created BIGINT NOT NULL, updated BIGINT NOT NULL,
  PRIMARY KEY (entity_id, kind, number));
CREATE TABLE audit (
  sequence BIGINT PRIMARY KEY, at BIGINT NOT NULL, actor TEXT NOT NULL, org TEXT NOT NULL,
  action TEXT NOT NULL, kind TEXT NOT NULL, object TEXT NOT NULL, from_json TEXT NOT NULL,
  to_json TEXT NOT NULL);
CREATE INDEX audit_object ON audit (object, sequence);
CREATE TABLE leader (
  term BIGINT NOT NULL, holder TEXT NOT NULL, backend_pid BIGINT NOT NULL,
  heartbeat BIGINT NOT NULL);
INSERT INTO leader (term, holder, backend_pid, heartbeat) VALUES (0, '', 0, 0);
)sql";

/// Step n brings version n to n + 1. Only ever appended to.
constexpr std::array<std::string_view, 1> kSteps{kInitialSchema};

std::string in_dialect(std::string_view schema, Dialect dialect) {
  std::string text(schema);
  if (dialect == Dialect::kSqlite) return text;
  // Order and equality by bytes, as SQLite does, whatever the server's locale.
  constexpr std::string_view kPlain = "TEXT";
  constexpr std::string_view kBytewise = "TEXT COLLATE \"C\"";
  for (std::size_t at = text.find(kPlain); at != std::string::npos;
       at = text.find(kPlain, at + kBytewise.size()))
    text.replace(at, kPlain.size(), kBytewise);
  return text;
}

Result<std::uint64_t> schema_version(sql::Connection& connection) {
  std::uint64_t version = 0;
  IMEX_CHECK_OK(connection.query(
      "SELECT version FROM schema_version", {},
      [&](const sql::Row& row) { version = static_cast<std::uint64_t>(row.integer(0)); }));
  return version;
}

Result<bool> step_once(sql::Connection& connection, Dialect dialect) {
  // Replicas that start together take turns here, and all but the first find the work done.
  IMEX_CHECK_OK(connection.begin_write());
  const auto work = [&]() -> Result<bool> {
    IMEX_CHECK_OK(
        connection.script("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)"));
    IMEX_CHECK_OK(connection.script(
        "INSERT INTO schema_version SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM schema_version)"));
    IMEX_TRY(const std::uint64_t version, schema_version(connection));
    if (version > kSteps.size())
      return fail(Errc::kVersionMismatch,
                  fmt::format("the database has schema version {}, this program knows up to {}",
                              version, kSteps.size()),
                  "start the newer program again, or restore a backup from before it ran");
    if (version == kSteps.size()) return false;
    IMEX_CHECK_OK(connection.script(in_dialect(kSteps[version], dialect)));
    IMEX_CHECK_OK(
        connection.script(fmt::format("UPDATE schema_version SET version = {}", version + 1)));
    return true;
  };
  auto done = work();
  if (!done) {
    connection.rollback();
    return done;
  }
  IMEX_CHECK_OK(connection.commit());
  return done;
}

}  // namespace

Result<void> migrate(sql::Connection& connection, Dialect dialect) {
  for (;;) {
    IMEX_TRY(const bool stepped, step_once(connection, dialect));
    if (!stepped) return {};
  }
}

}  // namespace imex::partition
