#include "partition/store/transaction.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "columns.hpp"
#include "os/random.hpp"
#include "partition/model/json_writer.hpp"

namespace imex::partition {
namespace {

constexpr std::array<std::string_view, 20> kFieldColumns{"id",
                                                         "name",
                                                         "org",
                                                         "status",
                                                         "created",
                                                         "updated",
                                                         "provider_id",
                                                         "tenant_id",
                                                         "site_id",
                                                         "vpc_id",
                                                         "instance_type_id",
                                                         "instance_id",
                                                         "machine_id",
                                                         "partition_id",
                                                         "domain_id",
                                                         "device_instance",
                                                         "chassis_serial",
                                                         "url",
                                                         "state",
                                                         "expires"};
static_assert(kFieldColumns[static_cast<std::size_t>(Field::kExpires)] == "expires");

/// Statements of one table, made once from the record's description.
template <class T>
struct Statements {
  std::vector<std::string_view> columns;
  std::string select;  ///< "SELECT … FROM table"
  std::string find, insert, update, remove;

  Statements() {
    ColumnNames names;
    T record{};
    Described<T>::columns(names, record);
    columns = std::move(names.names);
    const std::string_view table = Described<T>::kTable;
    std::string parameters, assignments;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      parameters += fmt::format("{}${}", i == 0 ? "" : ", ", i + 1);
      if (i > 0) assignments += fmt::format("{}{} = ${}", i == 1 ? "" : ", ", columns[i], i + 1);
    }
    const std::string list = fmt::format("{}", fmt::join(columns, ", "));
    select = fmt::format("SELECT {} FROM {}", list, table);
    find = select + " WHERE id = $1";
    insert = fmt::format("INSERT INTO {} ({}) VALUES ({})", table, list, parameters);
    update = fmt::format("UPDATE {} SET {} WHERE id = $1", table, assignments);
    remove = fmt::format("DELETE FROM {} WHERE id = $1", table);
  }
  [[nodiscard]] bool has(std::string_view column) const {
    return std::find(columns.begin(), columns.end(), column) != columns.end();
  }
  [[nodiscard]] std::size_t index(std::string_view column) const {
    return static_cast<std::size_t>(std::find(columns.begin(), columns.end(), column) -
                                    columns.begin());
  }
};

template <class T>
const Statements<T>& statements() {
  static const Statements<T> made;
  return made;
}

template <class T>
std::string_view column_of(Field field) {
  std::string_view column = kFieldColumns[static_cast<std::size_t>(field)];
  if constexpr (std::is_same_v<T, Vpc>)
    if (field == Field::kPartition) column = "default_partition_id";
  IMEX_ASSERT(statements<T>().has(column), "the record has this field");
  return column;
}

/// A statement's end and its parameters.
struct Condition {
  std::string sql;
  std::vector<sql::Value> values;
  std::vector<std::int64_t> numbers;
};

/// Whether values of this field are numbers in the database.
bool is_number(Field field) {
  return field == Field::kCreated || field == Field::kUpdated || field == Field::kDevice ||
         field == Field::kExpires;
}

std::string pattern_of(std::string_view text) {
  std::string pattern = "%";
  for (const char c : text) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "%";
}

template <class T>
void add_filter(Condition& condition, const Filter& filter) {
  condition.sql += condition.sql.empty() ? " WHERE " : " AND ";
  condition.sql += column_of<T>(filter.field);
  if (filter.values.empty()) {
    condition.sql += filter.negated ? " IS NOT NULL" : " IS NULL";
    return;
  }
  condition.sql += filter.negated ? " NOT IN (" : " IN (";
  for (std::size_t i = 0; i < filter.values.size(); ++i) {
    if (is_number(filter.field))
      condition.values.emplace_back(
          static_cast<std::int64_t>(std::strtoll(filter.values[i].c_str(), nullptr, 10)));
    else
      condition.values.emplace_back(std::string_view(filter.values[i]));
    condition.sql += fmt::format("{}${}", i == 0 ? "" : ", ", condition.values.size());
  }
  condition.sql += ')';
}

/// `pattern` lives as long as the condition is used.
template <class T>
void add_search(Condition& condition, const std::string& pattern) {
  constexpr std::array<std::string_view, 5> kSearched{"name", "description", "status",
                                                      "product_name", "id"};
  condition.values.emplace_back(std::string_view(pattern));
  condition.sql += condition.sql.empty() ? " WHERE (" : " AND (";
  bool first = true;
  for (const std::string_view column : kSearched) {
    // Ids only where people choose them.
    if (!statements<T>().has(column) || (column == "id" && !std::is_same_v<T, Machine>)) continue;
    condition.sql += fmt::format("{}LOWER({}) LIKE LOWER(${}) ESCAPE '\\'", first ? "" : " OR ",
                                 column, condition.values.size());
    first = false;
  }
  IMEX_ASSERT(!first, "a record that is searched has texts");
  condition.sql += ')';
}

template <class T>
Condition condition_of(const ListQuery& query, const std::string& pattern) {
  Condition condition;
  for (const Filter& filter : query.filters) add_filter<T>(condition, filter);
  if (!query.text.empty()) add_search<T>(condition, pattern);
  return condition;
}

template <class T>
Result<std::vector<T>> read_rows(sql::Connection& connection, const std::string& sql,
                                 std::span<const sql::Value> values) {
  std::vector<T> rows;
  bool damaged = false;
  IMEX_CHECK_OK(connection.query(sql, values, [&](const sql::Row& row) {
    RowReader reader(row);
    Described<T>::columns(reader, rows.emplace_back());
    damaged |= reader.damaged();
  }));
  if (damaged)
    return fail(Errc::kDataLoss, fmt::format("a row of table {} is damaged", Described<T>::kTable),
                "restore a backup of the database");
  return rows;
}

template <class T>
std::vector<Cell> cells_of(const T& record) {
  CellWriter writer;
  Described<T>::columns(writer, record);
  return std::move(writer.cells);
}

std::vector<sql::Value> values_of(const std::vector<Cell>& cells) {
  std::vector<sql::Value> values;
  values.reserve(cells.size());
  for (const Cell& cell : cells) values.push_back(view_of(cell));
  return values;
}

std::string text_of(const MachineId& id) { return id.text; }
template <class Tag>
std::string text_of(const Id<Tag>& id) {
  return id.to_string();
}

void write_cell(JsonWriter& json, std::string_view name, const Cell& cell) {
  std::visit([&](const auto& value) { json.member(name, value); }, cell);
}

/// What the audit log does not repeat: its own line has the time.
bool is_bookkeeping(std::string_view column) {
  return column == "updated" || column == "observed_at" || column == "last_contact";
}

/// The columns that differ, and whether more than bookkeeping does.
struct Difference {
  std::string from_json, to_json;
  bool any = false;
  bool worth_a_line = false;
};

template <class T>
Difference difference(const std::vector<Cell>& from, const std::vector<Cell>& to) {
  const auto& columns = statements<T>().columns;
  Difference found;
  JsonWriter before, after;
  before.begin_object();
  after.begin_object();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (from[i] == to[i] || columns[i] == "updated") continue;
    found.any = true;
    if (is_bookkeeping(columns[i])) continue;
    found.worth_a_line = true;
    write_cell(before, columns[i], from[i]);
    write_cell(after, columns[i], to[i]);
  }
  found.from_json = std::move(before.end_object()).text();
  found.to_json = std::move(after.end_object()).text();
  return found;
}

template <class T>
std::string all_json(const std::vector<Cell>& cells) {
  JsonWriter json;
  json.begin_object();
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (!is_bookkeeping(statements<T>().columns[i]))
      write_cell(json, statements<T>().columns[i], cells[i]);
  return std::move(json.end_object()).text();
}

template <class T>
concept HasStatus = requires(T record) {
  { record.status } -> std::same_as<Status&>;
};
template <class T>
concept HasTimes = requires(T record) {
  record.created;
  record.updated;
};

}  // namespace

// ---- Reading -----------------------------------------------------------------------------------

template <class T>
Result<std::optional<T>> ReadTransaction::find(const typename KeyOf<T>::Type& id) {
  const std::string key = text_of(id);
  const std::array<sql::Value, 1> values{std::string_view(key)};
  IMEX_TRY(std::vector<T> rows, read_rows<T>(connection_, statements<T>().find, values));
  if (rows.empty()) return std::optional<T>();
  return std::optional<T>(std::move(rows.front()));
}

template <class T>
Result<std::vector<T>> ReadTransaction::list(const ListQuery& query) {
  const std::string pattern = pattern_of(query.text);
  Condition condition = condition_of<T>(query, pattern);
  const char* direction = query.descending ? " DESC" : "";
  condition.values.emplace_back(static_cast<std::int64_t>(query.limit));
  condition.values.emplace_back(static_cast<std::int64_t>(query.offset));
  const std::string sql =
      fmt::format("{}{} ORDER BY {}{}, id{} LIMIT ${} OFFSET ${}", statements<T>().select,
                  condition.sql, column_of<T>(query.order), direction, direction,
                  condition.values.size() - 1, condition.values.size());
  return read_rows<T>(connection_, sql, condition.values);
}

template <class T>
Result<std::uint64_t> ReadTransaction::count(const ListQuery& query) {
  const std::string pattern = pattern_of(query.text);
  const Condition condition = condition_of<T>(query, pattern);
  std::uint64_t total = 0;
  IMEX_CHECK_OK(connection_.query(
      fmt::format("SELECT COUNT(*) FROM {}{}", Described<T>::kTable, condition.sql),
      condition.values,
      [&](const sql::Row& row) { total = static_cast<std::uint64_t>(row.integer(0)); }));
  return total;
}

template <class T>
Result<Page<T>> ReadTransaction::page(const ListQuery& query) {
  Page<T> page;
  IMEX_TRY(page.rows, list<T>(query));
  // A page that is not full has shown how many there are.
  if (page.rows.size() < query.limit && (query.offset == 0 || !page.rows.empty())) {
    page.total = query.offset + page.rows.size();
    return page;
  }
  IMEX_TRY(page.total, count<T>(query));
  return page;
}

Result<std::optional<Tenant>> ReadTransaction::tenant_of(const std::string& org) {
  static const std::string sql = statements<Tenant>().select + " WHERE org = $1";
  const std::array<sql::Value, 1> values{std::string_view(org)};
  IMEX_TRY(std::vector<Tenant> rows, read_rows<Tenant>(connection_, sql, values));
  if (rows.empty()) return std::optional<Tenant>();
  return std::optional<Tenant>(std::move(rows.front()));
}

Result<std::optional<Provider>> ReadTransaction::provider_of(const std::string& org) {
  static const std::string sql = statements<Provider>().select + " WHERE org = $1";
  const std::array<sql::Value, 1> values{std::string_view(org)};
  IMEX_TRY(std::vector<Provider> rows, read_rows<Provider>(connection_, sql, values));
  if (rows.empty()) return std::optional<Provider>();
  return std::optional<Provider>(std::move(rows.front()));
}

Result<std::vector<StatusDetail>> ReadTransaction::history(Kind kind, const std::string& id,
                                                           std::uint64_t limit) {
  std::vector<StatusDetail> details;
  bool damaged = false;
  IMEX_CHECK_OK(connection_.query(
      "SELECT status, message, created, updated FROM status_detail "
      "WHERE entity_id = $1 AND kind = $2 ORDER BY number DESC LIMIT $3",
      {std::string_view(id), static_cast<std::int64_t>(kind), static_cast<std::int64_t>(limit)},
      [&](const sql::Row& row) {
        RowReader reader(row);
        StatusDetail& detail = details.emplace_back();
        reader("status", detail.status);
        reader("message", detail.message);
        reader("created", detail.created);
        reader("updated", detail.updated);
        damaged |= reader.damaged();
      }));
  if (damaged) return fail(Errc::kDataLoss, "a status history in the database is damaged");
  return details;
}

Result<PartitionUsage> ReadTransaction::usage(const LogicalPartitionId& partition) {
  PartitionUsage usage;
  const std::string id = partition.to_string();
  IMEX_CHECK_OK(
      connection_.query("SELECT COUNT(*), COUNT(DISTINCT instance_id) FROM nvlink_interface "
                        "WHERE partition_id = $1 AND status <> 'Deleting'",
                        {std::string_view(id)}, [&](const sql::Row& row) {
                          usage.gpus = static_cast<std::uint32_t>(row.integer(0));
                          usage.instances = static_cast<std::uint32_t>(row.integer(1));
                        }));
  return usage;
}

Result<std::vector<DomainMembers>> ReadTransaction::members(
    const std::vector<LogicalPartitionId>& partitions) {
  std::vector<DomainMembers> members;
  bool damaged = false;
  for (const LogicalPartitionId& partition : partitions) {
    const std::string id = partition.to_string();
    // By the machine, not by the interface: a member that is still on its way attracts already.
    IMEX_CHECK_OK(connection_.query(
        "SELECT m.domain_id, COUNT(*) FROM nvlink_interface n "
        "JOIN instance i ON i.id = n.instance_id JOIN machine m ON m.id = i.machine_id "
        "WHERE n.partition_id = $1 AND n.status <> 'Deleting' AND m.domain_id IS NOT NULL "
        "GROUP BY m.domain_id ORDER BY m.domain_id",
        {std::string_view(id)}, [&](const sql::Row& row) {
          RowReader reader(row);
          DomainMembers& found = members.emplace_back();
          reader("domain_id", found.domain);
          reader("count", found.gpus);
          damaged |= reader.damaged();
        }));
  }
  if (damaged) return fail(Errc::kDataLoss, "a domain id in the database is damaged");
  return members;
}

Result<std::uint32_t> ReadTransaction::trays_in(const LogicalPartitionId& partition,
                                                const DomainId& domain, WallTime since) {
  std::uint32_t trays = 0;
  const std::string partition_key = partition.to_string(), domain_key = domain.to_string();
  IMEX_CHECK_OK(connection_.query(
      "SELECT COUNT(DISTINCT i.id) FROM nvlink_interface n "
      "JOIN instance i ON i.id = n.instance_id JOIN machine m ON m.id = i.machine_id "
      "WHERE n.partition_id = $1 AND n.status <> 'Deleting' AND m.domain_id = $2 AND "
      "i.created >= $3",
      {std::string_view(partition_key), std::string_view(domain_key),
       since.time_since_epoch().count()},
      [&](const sql::Row& row) { trays = static_cast<std::uint32_t>(row.integer(0)); }));
  return trays;
}

Result<std::uint64_t> ReadTransaction::allocated_machines(const TenantId& tenant,
                                                          const InstanceTypeId& type) {
  std::uint64_t machines = 0;
  const std::string tenant_key = tenant.to_string(), type_key = type.to_string();
  IMEX_CHECK_OK(connection_.query(
      "SELECT CAST(COALESCE(SUM(machines), 0) AS BIGINT) FROM allocation "
      "WHERE tenant_id = $1 AND instance_type_id = $2 AND status = 'Registered'",
      {std::string_view(tenant_key), std::string_view(type_key)},
      [&](const sql::Row& row) { machines = static_cast<std::uint64_t>(row.integer(0)); }));
  return machines;
}

Result<std::vector<ObservedPartition>> ReadTransaction::observed_partitions(
    const DomainId& domain) {
  std::vector<ObservedPartition> partitions;
  bool damaged = false;
  const std::string id = domain.to_string();
  IMEX_CHECK_OK(connection_.query(
      "SELECT fabric_id, name, gpu_uids, health, multicast_groups FROM observed_partition "
      "WHERE domain_id = $1 ORDER BY fabric_id",
      {std::string_view(id)}, [&](const sql::Row& row) {
        RowReader reader(row);
        ObservedPartition& partition = partitions.emplace_back();
        reader("fabric_id", partition.fabric_id);
        reader("name", partition.name);
        reader("gpu_uids", partition.gpu_uids);
        reader("health", partition.health);
        reader("multicast_groups", partition.multicast_groups);
        damaged |= reader.damaged();
      }));
  if (damaged) return fail(Errc::kDataLoss, "an observed partition in the database is damaged");
  return partitions;
}

Result<std::optional<OperationRecord>> ReadTransaction::operation_by_key(const std::string& key) {
  static const std::string sql =
      statements<OperationRecord>().select + " WHERE idempotency_key = $1";
  const std::array<sql::Value, 1> values{std::string_view(key)};
  IMEX_TRY(auto rows, read_rows<OperationRecord>(connection_, sql, values));
  if (rows.empty()) return std::optional<OperationRecord>();
  return std::optional<OperationRecord>(std::move(rows.front()));
}

Result<std::uint64_t> ReadTransaction::leader_term() {
  std::uint64_t term = 0;
  IMEX_CHECK_OK(connection_.query("SELECT term FROM leader", {}, [&](const sql::Row& row) {
    term = static_cast<std::uint64_t>(row.integer(0));
  }));
  return term;
}

Result<std::string> ReadTransaction::sealed_credentials(const EndpointId& endpoint) {
  std::string sealed;
  const std::string id = endpoint.to_string();
  IMEX_CHECK_OK(connection_.query("SELECT sealed FROM endpoint_credentials WHERE endpoint_id = $1",
                                  {std::string_view(id)},
                                  [&](const sql::Row& row) { sealed = row.text(0); }));
  return sealed;
}

Result<std::vector<AuditRecord>> ReadTransaction::audit_log(std::uint64_t before,
                                                            std::uint64_t limit) {
  static const auto kKinds = [] {
    std::vector<std::pair<std::string_view, Kind>> kinds;
    for (int i = 0; i <= static_cast<int>(Kind::kReservation); ++i)
      kinds.emplace_back(kind_name(static_cast<Kind>(i)), static_cast<Kind>(i));
    return kinds;
  }();
  std::vector<AuditRecord> records;
  const auto below = before == 0 ? INT64_MAX : static_cast<std::int64_t>(before);
  IMEX_CHECK_OK(connection_.query(
      "SELECT sequence, at, actor, org, action, kind, object, from_json, to_json FROM audit "
      "WHERE sequence < $1 ORDER BY sequence DESC LIMIT $2",
      {below, static_cast<std::int64_t>(limit)}, [&](const sql::Row& row) {
        AuditRecord& record = records.emplace_back();
        RowReader reader(row);
        reader("sequence", record.sequence);
        reader("at", record.at);
        reader("actor", record.actor);
        reader("org", record.org);
        reader("action", record.action);
        std::string kind;
        reader("kind", kind);
        for (const auto& [name, value] : kKinds)
          if (name == kind) record.kind = value;
        reader("object", record.object);
        reader("from_json", record.from_json);
        reader("to_json", record.to_json);
      }));
  return records;
}

// ---- Writing -----------------------------------------------------------------------------------

template <class T>
Result<void> WriteTransaction::insert(T& record, std::string_view message) {
  if constexpr (HasTimes<T>) {
    if (record.created == WallTime{}) record.created = now_;
    record.updated = record.created;
  }
  const std::vector<Cell> cells = cells_of(record);
  IMEX_CHECK_OK(connection_.run(statements<T>().insert, values_of(cells), nullptr));
  const std::string id = text_of(record.id);
  IMEX_CHECK_OK(audit("create", Described<T>::kKind, id, "null", all_json<T>(cells)));
  if constexpr (HasStatus<T>) IMEX_CHECK_OK(note(Described<T>::kKind, id, record.status, message));
  return {};
}

template <class T>
Result<bool> WriteTransaction::update(T& record, std::string_view message) {
  IMEX_TRY(std::optional<T> former, find<T>(record.id));
  const std::string id = text_of(record.id);
  if (!former) return fail(Errc::kNotFound, fmt::format("{} {} is gone", Described<T>::kTable, id));
  const Difference changed = difference<T>(cells_of(*former), cells_of(record));
  if (!changed.any) return false;
  if constexpr (HasTimes<T>) record.updated = now_;
  const std::vector<Cell> cells = cells_of(record);
  IMEX_CHECK_OK(connection_.run(statements<T>().update, values_of(cells), nullptr));
  if (changed.worth_a_line)
    IMEX_CHECK_OK(audit("update", Described<T>::kKind, id, changed.from_json, changed.to_json));
  if constexpr (HasStatus<T>)
    if (record.status != former->status)
      IMEX_CHECK_OK(note(Described<T>::kKind, id, record.status, message));
  return true;
}

template <class T>
Result<void> WriteTransaction::remove(const typename KeyOf<T>::Type& id) {
  const std::string key = text_of(id);
  IMEX_TRY(std::optional<T> former, find<T>(id));
  if (!former)
    return fail(Errc::kNotFound, fmt::format("{} {} is gone", Described<T>::kTable, key));
  const std::array<sql::Value, 1> values{std::string_view(key)};
  IMEX_CHECK_OK(connection_.run(statements<T>().remove, values, nullptr));
  if constexpr (HasStatus<T>)
    IMEX_CHECK_OK(connection_.execute(
        "DELETE FROM status_detail WHERE entity_id = $1 AND kind = $2",
        {std::string_view(key), static_cast<std::int64_t>(Described<T>::kKind)}));
  return audit("delete", Described<T>::kKind, key, all_json<T>(cells_of(*former)), "null");
}

Result<void> WriteTransaction::note(Kind kind, const std::string& id, Status status,
                                    std::string_view message) {
  // A hundred are shown at most; what is older than that only grows the file.
  constexpr std::int64_t kKept = 100;
  const std::int64_t at = now_.time_since_epoch().count();
  IMEX_CHECK_OK(connection_.execute(
      "INSERT INTO status_detail (kind, entity_id, number, status, message, created, updated) "
      "VALUES ($1, $2, (SELECT COALESCE(MAX(number), 0) + 1 FROM status_detail "
      "WHERE entity_id = $2 AND kind = $1), $3, $4, $5, $6)",
      {static_cast<std::int64_t>(kind), std::string_view(id), status_name(status), message, at,
       at}));
  IMEX_CHECK_OK(connection_.execute(
      "DELETE FROM status_detail WHERE entity_id = $1 AND kind = $2 AND number <= "
      "(SELECT MAX(number) FROM status_detail WHERE entity_id = $1 AND kind = $2) - $3",
      {std::string_view(id), static_cast<std::int64_t>(kind), kKept}));
  return {};
}

Result<void> WriteTransaction::audit(std::string_view action, Kind kind, const std::string& object,
                                     const std::string& from_json, const std::string& to_json) {
  // Writers take turns, so the next number is nobody else's.
  IMEX_CHECK_OK(connection_.execute(
      "INSERT INTO audit (sequence, at, actor, org, action, kind, object, from_json, to_json) "
      "VALUES ((SELECT COALESCE(MAX(sequence), 0) + 1 FROM audit), $1, $2, $3, $4, $5, $6, $7, "
      "$8)",
      {now_.time_since_epoch().count(), std::string_view(actor_.subject),
       std::string_view(actor_.org), action, kind_name(kind), std::string_view(object),
       std::string_view(from_json), std::string_view(to_json)}));
  return {};
}

Result<void> WriteTransaction::put_credentials(const EndpointId& endpoint,
                                               const std::string& sealed) {
  IMEX_TRY(std::optional<Endpoint> found, find<Endpoint>(endpoint));
  const std::string id = endpoint.to_string();
  if (!found) return fail(Errc::kNotFound, fmt::format("endpoint {} is gone", id));
  IMEX_CHECK_OK(connection_.execute("DELETE FROM endpoint_credentials WHERE endpoint_id = $1",
                                    {std::string_view(id)}));
  if (!sealed.empty())
    IMEX_CHECK_OK(connection_.execute(
        "INSERT INTO endpoint_credentials (endpoint_id, sealed) VALUES ($1, $2)",
        {std::string_view(id), std::string_view(sealed)}));
  const bool had = found->has_credentials;
  found->has_credentials = !sealed.empty();
  IMEX_TRY(const bool changed, update(*found));
  // New ones in place of old ones leave no trace in the columns, but must leave one in the log.
  if (!changed && had)
    IMEX_CHECK_OK(audit("update", Kind::kEndpoint, id, R"({"credentials":"***"})",
                        R"({"credentials":"***"})"));
  wake_reconciler();
  return {};
}

Result<void> WriteTransaction::replace_observed_partitions(
    const DomainId& domain, const std::vector<ObservedPartition>& partitions) {
  IMEX_TRY(const std::vector<ObservedPartition> former, observed_partitions(domain));
  if (former == partitions) return {};
  const std::string id = domain.to_string();
  IMEX_CHECK_OK(connection_.execute("DELETE FROM observed_partition WHERE domain_id = $1",
                                    {std::string_view(id)}));
  for (const ObservedPartition& partition : partitions) {
    const std::string uids = join_uids(partition.gpu_uids);
    IMEX_CHECK_OK(connection_.execute(
        "INSERT INTO observed_partition (domain_id, fabric_id, name, gpu_uids, health, "
        "multicast_groups) VALUES ($1, $2, $3, $4, $5, $6)",
        {std::string_view(id), std::int64_t{partition.fabric_id}, std::string_view(partition.name),
         std::string_view(uids), health_name(partition.health),
         std::int64_t{partition.multicast_groups}}));
  }
  return {};
}

Result<void> WriteTransaction::put_physical(PhysicalPartition row) {
  ListQuery query;
  query.filters.push_back({Field::kDomain, {row.domain.to_string()}});
  IMEX_TRY(const auto present, list<PhysicalPartition>(query));
  for (const PhysicalPartition& other : present) {
    if (other.partition == row.partition) {
      row.id = other.id;
      row.created = other.created;
    } else if (other.fabric_id == row.fabric_id) {
      // The manager has given the number anew: what had it is gone.
      IMEX_CHECK_OK(remove<PhysicalPartition>(other.id));
    }
  }
  if (row.created != WallTime{}) {
    IMEX_TRY([[maybe_unused]] const bool changed, update(row));
    return {};
  }
  if (row.id.is_nil()) row.id = {os::random_uuid()};
  return insert(row);
}

Result<bool> WriteTransaction::remove_if_free(const LogicalPartitionId& partition) {
  IMEX_TRY(const auto found, find<LogicalPartition>(partition));
  if (!found || found->status != Status::kDeleting) return false;
  ListQuery of_it;
  of_it.filters.push_back({Field::kPartition, {partition.to_string()}});
  IMEX_TRY(const std::uint64_t interfaces, count<NvlinkInterface>(of_it));
  IMEX_TRY(const std::uint64_t physical, count<PhysicalPartition>(of_it));
  if (interfaces + physical > 0) return false;
  IMEX_TRY(const auto reservations, list<Reservation>(of_it));
  for (const Reservation& reservation : reservations)
    IMEX_CHECK_OK(remove<Reservation>(reservation.id));
  IMEX_CHECK_OK(remove<LogicalPartition>(partition));
  return true;
}

#define IMEX_PARTITION_RECORD(T)                                                     \
  template Result<std::optional<T>> ReadTransaction::find<T>(const KeyOf<T>::Type&); \
  template Result<std::vector<T>> ReadTransaction::list<T>(const ListQuery&);        \
  template Result<Page<T>> ReadTransaction::page<T>(const ListQuery&);               \
  template Result<std::uint64_t> ReadTransaction::count<T>(const ListQuery&);        \
  template Result<void> WriteTransaction::insert<T>(T&, std::string_view);           \
  template Result<bool> WriteTransaction::update<T>(T&, std::string_view);           \
  template Result<void> WriteTransaction::remove<T>(const KeyOf<T>::Type&);

IMEX_PARTITION_RECORD(Tenant)
IMEX_PARTITION_RECORD(Provider)
IMEX_PARTITION_RECORD(Site)
IMEX_PARTITION_RECORD(InstanceType)
IMEX_PARTITION_RECORD(Allocation)
IMEX_PARTITION_RECORD(Vpc)
IMEX_PARTITION_RECORD(LogicalPartition)
IMEX_PARTITION_RECORD(Instance)
IMEX_PARTITION_RECORD(NvlinkInterface)
IMEX_PARTITION_RECORD(Machine)
IMEX_PARTITION_RECORD(Domain)
IMEX_PARTITION_RECORD(Endpoint)
IMEX_PARTITION_RECORD(PhysicalPartition)
IMEX_PARTITION_RECORD(OperationRecord)
IMEX_PARTITION_RECORD(Reservation)
#undef IMEX_PARTITION_RECORD

}  // namespace imex::partition
