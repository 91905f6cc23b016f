#include "partition/forge/administration.hpp"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "checks.hpp"
#include "os/random.hpp"
#include "views.hpp"

namespace imex::partition::forge {
namespace {

constexpr std::string_view kPartition = "logical partition";

/// Names are unique by an index; its refusal is told as what it means to the caller.
Error name_taken(Error error, const std::string& org, const std::string& name) {
  if (error.code != Errc::kAlreadyExists) return error;
  return {Errc::kAlreadyExists,
          fmt::format("organisation '{}' has a logical partition '{}' already", printable(org),
                      printable(name))};
}

Result<Tenant> tenant_or_new(WriteTransaction& t, const std::string& org) {
  IMEX_TRY(std::optional<Tenant> known, t.tenant_of(org));
  if (known) return std::move(*known);
  Tenant tenant;
  tenant.id = TenantId{os::random_uuid()};
  tenant.org = org;
  IMEX_CHECK_OK(t.insert(tenant, "made for a logical partition of an administrator"));
  return tenant;
}

/// Being deleted counts as gone: it never comes back.
Result<LogicalPartition> living_partition(ReadTransaction& t, const LogicalPartitionId& id) {
  IMEX_TRY(auto found, existing<LogicalPartition>(t, id, kPartition, id.to_string()));
  if (found.status == Status::kDeleting) {
    return fail(Errc::kNotFound,
                fmt::format("logical partition {} is being deleted", id.to_string()));
  }
  return found;
}

Result<void> check_unused(WriteTransaction& t, const LogicalPartition& partition) {
  IMEX_TRY(const PartitionUsage usage, t.usage(partition.id));
  if (usage.instances > 0) {
    return fail(Errc::kInvalidArgument,
                fmt::format("logical partition {} holds {} GPUs of {} instances",
                            partition.id.to_string(), usage.gpus, usage.instances),
                "release these instances, or take their GPUs out of the partition");
  }
  IMEX_TRY(const auto vpcs, rows_with<Vpc>(t, Field::kPartition, {partition.id.to_string()}));
  if (vpcs.empty()) return {};
  return fail(Errc::kInvalidArgument,
              fmt::format("logical partition {} is the default of {} VPCs, among them {}",
                          partition.id.to_string(), vpcs.size(), vpcs.front().id.to_string()),
              "clear these VPCs' default first");
}

}  // namespace

// ---- Versions ----------------------------------------------------------------------------------

std::string version_text(std::uint64_t version, WallTime updated) {
  return fmt::format("V{}-T{}", version, updated.time_since_epoch().count());
}

Result<std::uint64_t> parse_version(const std::string& text) {
  std::string_view digits = text;
  if (digits.starts_with('V')) digits.remove_prefix(1);
  std::uint64_t version = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, version);
  const std::string_view left(rest, static_cast<std::size_t>(end - rest));
  if (error == std::errc{} && (left.empty() || left.starts_with("-T"))) return version;
  return fail(Errc::kInvalidArgument, fmt::format("'{}' is no version", printable(text)),
              "give back config_version as it was read, such as V3-T1764000000000000");
}

// ---- Views -------------------------------------------------------------------------------------

Result<std::unordered_map<TenantId, std::string>> orgs_of(ReadTransaction& t,
                                                          std::vector<TenantId> tenants) {
  std::ranges::sort(tenants);
  tenants.erase(std::ranges::unique(tenants).begin(), tenants.end());
  IMEX_TRY(const auto rows, rows_with<Tenant>(t, Field::kId, texts_of(tenants)));
  std::unordered_map<TenantId, std::string> orgs;
  for (const Tenant& tenant : rows) orgs.emplace(tenant.id, tenant.org);
  return orgs;
}

Result<std::vector<PartitionView>> partition_views(ReadTransaction& t,
                                                   std::vector<LogicalPartition> records) {
  std::vector<TenantId> tenants;
  for (const LogicalPartition& record : records) tenants.push_back(record.tenant);
  IMEX_TRY(auto orgs, orgs_of(t, std::move(tenants)));
  std::vector<PartitionView> views;
  views.reserve(records.size());
  for (LogicalPartition& record : records) {
    std::string& org = orgs[record.tenant];
    views.push_back({std::move(record), org});
  }
  return views;
}

// ---- Logical partitions ------------------------------------------------------------------------

Administration::Administration(Store& store, Options options)
    : store_(store), options_(std::move(options)) {}

template <class T>
Result<void> Administration::check_count(const std::vector<T>& ids) const {
  if (ids.empty()) return fail(Errc::kInvalidArgument, "no ids are given");
  if (ids.size() <= options_.ids_max) return {};
  return fail(
      Errc::kInvalidArgument,
      fmt::format("{} ids are given, at most {} are possible", ids.size(), options_.ids_max),
      "ask for them page by page");
}
template Result<void> Administration::check_count(const std::vector<MachineId>&) const;
template Result<void> Administration::check_count(const std::vector<InstanceId>&) const;

Result<PartitionView> Administration::create_partition(const Actor& actor,
                                                       const NewPartition& wanted) {
  IMEX_CHECK_OK(check_text("the name", wanted.name, kNameBytesMax));
  IMEX_CHECK_OK(check_text("tenant_organization_id", wanted.org, kOrgBytesMax));
  IMEX_CHECK_OK(check_description(wanted.description));
  if (wanted.id && wanted.id->is_nil())
    return fail(Errc::kInvalidArgument, "the id is the nil UUID");
  PartitionView made;
  auto done = store_.write(actor, [&](WriteTransaction& t) -> Result<void> {
    made = {};
    made.org = wanted.org;
    made.record.id = wanted.id.value_or(LogicalPartitionId{os::random_uuid()});
    IMEX_TRY(const auto same_id, t.find<LogicalPartition>(made.record.id));
    if (same_id) {
      return fail(Errc::kAlreadyExists, fmt::format("there is a logical partition {} already",
                                                    made.record.id.to_string()));
    }
    IMEX_TRY(const Tenant tenant, tenant_or_new(t, wanted.org));
    made.record.tenant = tenant.id;
    made.record.site = options_.site;
    made.record.name = wanted.name;
    if (!wanted.description.empty()) made.record.description = wanted.description;
    if (auto inserted = t.insert(made.record); !inserted)
      return fail(name_taken(std::move(inserted).error(), wanted.org, wanted.name));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return made;
}

Result<void> Administration::update_partition(const Actor& actor, const PartitionUpdate& update) {
  IMEX_CHECK_OK(check_text("the name", update.name, kNameBytesMax));
  IMEX_CHECK_OK(check_description(update.description));
  std::optional<std::uint64_t> wanted;
  if (update.if_version) {
    IMEX_TRY(wanted, parse_version(*update.if_version));
  }
  return store_.write(actor, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(LogicalPartition record, living_partition(t, update.id));
    IMEX_TRY(const auto owner, t.find<Tenant>(record.tenant));
    if (!owner || owner->org != update.org) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("logical partition {} is not of organisation '{}'",
                              update.id.to_string(), printable(update.org)),
                  "a partition stays with the organisation that it was made for");
    }
    if (wanted && *wanted != record.version) {
      return fail(Errc::kFailedPrecondition,
                  fmt::format("logical partition {} has version {}, not {}", update.id.to_string(),
                              record.version, *wanted),
                  "somebody else changed it: read it again");
    }
    const std::optional<std::string> description =
        update.description.empty() ? std::nullopt : std::optional(update.description);
    if (record.name == update.name && record.description == description) return {};
    record.name = update.name;
    record.description = description;
    ++record.version;
    if (auto updated = t.update(record); !updated)
      return fail(name_taken(std::move(updated).error(), update.org, update.name));
    return {};
  });
}

Result<void> Administration::delete_partition(const Actor& actor, const LogicalPartitionId& id) {
  return store_.write(actor, [&](WriteTransaction& t) -> Result<void> {
    IMEX_TRY(LogicalPartition record,
             existing<LogicalPartition>(t, id, kPartition, id.to_string()));
    if (record.status == Status::kDeleting) return {};
    IMEX_CHECK_OK(check_unused(t, record));
    record.status = Status::kDeleting;
    ++record.version;
    IMEX_CHECK_OK(t.update(record, "deletion requested by an administrator"));
    t.wake_reconciler();
    // With nothing on the fabric there is nothing to wait for.
    IMEX_CHECK_OK(t.remove_if_free(id));
    return {};
  });
}

Result<std::vector<LogicalPartitionId>> Administration::partition_ids(
    const std::optional<std::string>& name) {
  std::vector<LogicalPartitionId> ids;
  auto done = store_.read([&](ReadTransaction& t) -> Result<void> {
    ids.clear();
    ListQuery query;
    query.filters.push_back({Field::kSite, {options_.site.to_string()}});
    if (name) query.filters.push_back({Field::kName, {*name}});
    IMEX_TRY(const auto rows, t.list<LogicalPartition>(query));
    for (const LogicalPartition& row : rows) ids.push_back(row.id);
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return ids;
}

Result<std::vector<PartitionView>> Administration::partitions(
    const std::vector<LogicalPartitionId>& ids) {
  IMEX_CHECK_OK(check_count(ids));
  std::vector<PartitionView> views;
  auto done = store_.read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(auto rows, rows_with<LogicalPartition>(t, Field::kId, texts_of(ids)));
    IMEX_TRY(views, partition_views(t, std::move(rows)));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return views;
}

Result<std::vector<PartitionView>> Administration::partitions_of(const std::string& org) {
  IMEX_CHECK_OK(check_text("tenant_organization_id", org, kOrgBytesMax));
  std::vector<PartitionView> views;
  auto done = store_.read([&](ReadTransaction& t) -> Result<void> {
    views.clear();
    IMEX_TRY(const auto tenant, t.tenant_of(org));
    if (!tenant) return {};
    IMEX_TRY(auto rows, rows_with<LogicalPartition>(t, Field::kTenant, {tenant->id.to_string()}));
    IMEX_TRY(views, partition_views(t, std::move(rows)));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return views;
}

// ---- Physical partitions -----------------------------------------------------------------------

namespace {

Result<std::vector<PhysicalPartition>> list_physical(ReadTransaction& t,
                                                     const std::optional<std::string>& org,
                                                     const std::optional<std::string>& name) {
  ListQuery query;
  if (org) {
    IMEX_TRY(const auto tenant, t.tenant_of(*org));
    if (!tenant) return std::vector<PhysicalPartition>();
    query.filters.push_back({Field::kTenant, {tenant->id.to_string()}});
  }
  if (name) query.filters.push_back({Field::kName, {*name}});
  return t.list<PhysicalPartition>(query);
}

}  // namespace

Result<std::vector<PhysicalPartitionId>> Administration::physical_ids(
    const std::optional<std::string>& org, const std::optional<std::string>& name) {
  std::vector<PhysicalPartitionId> ids;
  auto done = store_.read([&](ReadTransaction& t) -> Result<void> {
    ids.clear();
    IMEX_TRY(const auto rows, list_physical(t, org, name));
    for (const PhysicalPartition& row : rows) ids.push_back(row.id);
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return ids;
}

Result<std::vector<PhysicalPartition>> Administration::physical(
    const std::vector<PhysicalPartitionId>& ids) {
  IMEX_CHECK_OK(check_count(ids));
  std::vector<PhysicalPartition> rows;
  auto done = store_.read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(rows, rows_with<PhysicalPartition>(t, Field::kId, texts_of(ids)));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return rows;
}

Result<std::vector<PhysicalPartition>> Administration::physical_of(const std::string& org) {
  IMEX_CHECK_OK(check_text("tenant_organization_id", org, kOrgBytesMax));
  std::vector<PhysicalPartition> rows;
  auto done = store_.read([&](ReadTransaction& t) -> Result<void> {
    IMEX_TRY(rows, list_physical(t, org, std::nullopt));
    return {};
  });
  if (!done) return fail(std::move(done).error());
  return rows;
}

}  // namespace imex::partition::forge
