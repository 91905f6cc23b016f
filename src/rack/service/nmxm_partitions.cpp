// Partitions of the manager: what lists show, and what a request must look like before it becomes
// an operation. nmx-m.md, section 4.
#include <algorithm>

#include <fmt/format.h>

#include "json/json.hpp"
#include "nmxm_manager.hpp"

namespace imex::rack {

namespace {

constexpr std::size_t kNameMax = 244, kOperationsMax = 1000;

const char* kind_name(PartitionKind kind) {
  if (kind == PartitionKind::kByUid) return "ID_BASED";
  return kind == PartitionKind::kByLocation ? "LOCATION_BASED" : "UNDEFINED";
}

bool fits_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameMax &&
         std::ranges::all_of(name, [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace

const NmxmManager::Known& NmxmManager::known_partition(unsigned domain, std::uint32_t number,
                                                       Moment wall) {
  auto [it, fresh] = known_.try_emplace({domain, number});
  if (fresh) it->second = {next_id(Entity::kPartition), rfc3339(wall)};
  return it->second;
}

nlohmann::json NmxmManager::partition_object(unsigned domain, const Partition& partition,
                                             PartitionHealth health, Moment wall) {
  const Entry& entry = entries_[domain];
  nlohmann::json members = nlohmann::json::array();
  for (const Member& member : partition.members) {
    if (partition.kind == PartitionKind::kByLocation) {
      const Location& at = member.place.location;
      members.push_back({{"DomainUUID", entry.copy.uuid.to_string()},
                         {"ChassisID", at.chassis},
                         {"SlotID", at.slot},
                         {"HostID", at.host},
                         {"DeviceID", member.place.module}});
    } else {
      members.push_back(entity_id(Entity::kGpu, entry.copy.uuid, entry.registration, member.uid));
    }
  }
  if (members.empty() || faults_.holds(FaultKind::kEmptyMembers) != nullptr) members = nullptr;
  const Known& known = known_partition(domain, partition.id, wall);
  return {{"ID", known.id},
          {"PartitionID", partition.id},
          {"Name", partition.name},
          {"Type", kind_name(partition.kind)},
          {"Health", partition_health_name(health)},
          {"Members", std::move(members)},
          {"CreatedAt", known.created},
          {"UpdatedAt", known.created}};
}

NmxmResponse NmxmManager::partitions(const NmxmRequest& request, const std::string& id, Time now,
                                     Moment wall) {
  if (request.method == "POST" && id.empty()) return change_partition(request, {}, now, wall);
  if (!id.empty() && !is_entity_id(id))
    return nmxm_error(400, "partition id: want 24 hexadecimal digits");
  if ((request.method == "PUT" || request.method == "DELETE") && !id.empty())
    return change_partition(request, id, now, wall);
  if (request.method != "GET") return nmxm_error(405, "method not allowed here");
  nlohmann::json list = nlohmann::json::array();
  for (unsigned domain = 0; domain < entries_.size(); ++domain) {
    if (!entries_[domain].registered) continue;
    std::set<std::uint32_t> listed;
    for (const auto& [partition, health] : entries_[domain].copy.partitions) {
      listed.insert(partition.id);
      if (hidden_.contains({domain, partition.id})) continue;
      nlohmann::json object = partition_object(domain, partition, health, wall);
      if (!id.empty() && object["ID"] == id) return nmxm_json(200, object);
      list.push_back(std::move(object));
    }
    // A number that is handed out again later is another partition.
    std::erase_if(known_, [&](const auto& known) {
      return known.first.first == domain && !listed.contains(known.first.second);
    });
  }
  return id.empty() ? nmxm_json(200, list) : nmxm_error(404, "no such partition");
}

std::optional<NmxmResponse> NmxmManager::read_members(const nlohmann::json& members,
                                                      Operation& operation, PartitionKind* kind) {
  constexpr std::size_t kMembersMax = 4096;
  if (members.is_null()) return std::nullopt;
  if (!members.is_array() || members.size() > kMembersMax)
    return nmxm_error(400, "Members: want an array or null");
  std::optional<unsigned> domain;
  std::set<std::string> seen;
  for (const nlohmann::json& member : members) {
    if (member.type() != members.front().type())
      return nmxm_error(400, "Members: kinds cannot be mixed");
    if (!seen.insert(member.dump()).second) return nmxm_error(400, "Members: one is there twice");
    std::optional<unsigned> found;
    if (member.is_string()) {
      *kind = PartitionKind::kByUid;
      const auto& id = member.get_ref<const std::string&>();
      if (!is_entity_id(id)) return nmxm_error(400, "Members: want ids of 24 hexadecimal digits");
      for (unsigned i = 0; i < entries_.size() && !found; ++i) {
        if (!entries_[i].registered) continue;
        for (const GpuView& gpu : entries_[i].copy.gpus) {
          if (entity_id(Entity::kGpu, entries_[i].copy.uuid, entries_[i].registration, gpu.uid) !=
              id)
            continue;
          found = i;
          operation.members.emplace_back(gpu.uid);
        }
      }
    } else if (member.is_object()) {
      *kind = PartitionKind::kByLocation;
      const auto uuid = imex::json::required_string(member, "DomainUUID");
      const auto chassis = imex::json::required_u64(member, "ChassisID"),
                 slot = imex::json::required_u64(member, "SlotID");
      const auto host = imex::json::required_u64(member, "HostID"),
                 device = imex::json::required_u64(member, "DeviceID");
      if (!uuid || !chassis || !slot || !host || !device || member.size() != 5 ||
          *device > UINT32_MAX) {
        return nmxm_error(400, "Members: want DomainUUID, ChassisID, SlotID, HostID and DeviceID");
      }
      const GpuPlace place{{*chassis, *slot, *host}, static_cast<std::uint32_t>(*device)};
      for (unsigned i = 0; i < entries_.size() && !found; ++i) {
        if (!entries_[i].registered || entries_[i].copy.uuid.to_string() != *uuid) continue;
        if (std::ranges::find(entries_[i].copy.gpus, place, &GpuView::place) !=
            entries_[i].copy.gpus.end())
          found = i;
      }
      operation.members.emplace_back(place);
    } else {
      return nmxm_error(400, "Members: want ids or locations");
    }
    if (!found) return nmxm_error(404, "Members: no such GPU");
    if (domain && *domain != *found) return nmxm_error(400, "Members: all must be in one domain");
    domain = found;
  }
  if (domain) operation.domain = *domain;
  return std::nullopt;
}

NmxmResponse NmxmManager::change_partition(const NmxmRequest& request, const std::string& id,
                                           Time now, Moment wall) {
  Operation operation;
  const Partition* target = nullptr;
  for (unsigned domain = 0; domain < entries_.size() && !id.empty(); ++domain) {
    for (const auto& [partition, health] : entries_[domain].copy.partitions) {
      if (!entries_[domain].registered || known_partition(domain, partition.id, wall).id != id)
        continue;
      target = &partition;
      operation.domain = domain;
      operation.number = partition.id;
      operation.partition = id;
    }
  }
  if (!id.empty() && target == nullptr) return nmxm_error(404, "no such partition");
  if (request.method != "DELETE") {
    const unsigned of_target = operation.domain;
    const bool create = request.method == "POST";
    auto body = nmxm_body(request.body, create ? std::set<std::string>{"Name", "Members"}
                                               : std::set<std::string>{"Members"});
    if (!body) return nmxm_error(400, body.error().message);
    if (!body->contains("Members")) return nmxm_error(400, "Members: missing");
    if (create) {
      const auto name = imex::json::required_string(*body, "Name");
      if (!name || !fits_name(*name))
        return nmxm_error(400, "Name: want 1 to 244 printable characters");
      operation.name = *name;
    }
    PartitionKind kind = PartitionKind::kUndefined;
    if (auto refused = read_members((*body)["Members"], operation, &kind)) return *refused;
    if (target != nullptr && !operation.members.empty()) {
      if (operation.domain != of_target)
        return nmxm_error(400, "Members: of another domain than the partition");
      if (target->kind != PartitionKind::kUndefined && target->kind != kind &&
          target->id != kDefaultPartitionId) {
        return nmxm_error(409, "Members: of another kind than the partition's");
      }
    }
    operation.body = std::move(*body);
  }
  const Entry& entry = entries_[operation.domain];
  if (lost(operation.domain)) return nmxm_error(503, "no connection to the domain's controller");
  for (const auto& [partition, health] : entry.copy.partitions) {
    if (id.empty() && partition.name == operation.name) return nmxm_error(409, "Name: taken");
  }
  for (const GpuRef& member : operation.members) {
    for (const GpuView& gpu : entry.copy.gpus) {
      const auto* uid = std::get_if<std::uint64_t>(&member);
      const bool named = uid != nullptr ? gpu.uid == *uid : gpu.place == std::get<GpuPlace>(member);
      if (named && gpu.partition != 0 && gpu.partition != operation.number) {
        return nmxm_error(409, "Members: a GPU is in another partition");
      }
    }
  }
  for (const Operation& other : operations_) {
    const bool same = id.empty() ? other.name == operation.name : other.partition == id;
    if (!other.terminal() && other.domain == operation.domain && same &&
        other.partition.empty() == id.empty()) {
      return nmxm_error(409, "an operation on it is running");
    }
  }
  return accept(std::move(operation), request, now, wall);
}

NmxmResponse NmxmManager::accept(Operation operation, const NmxmRequest& request, Time now,
                                 Moment wall) {
  const std::string call = request.method + " partitions";
  const auto befalls = [&](FaultKind kind) IMEX_REQUIRES(mutex_) {
    return faults_.befalls(kind, {call, operation.number}, now, random_);
  };
  operation.id = next_id(Entity::kOperation);
  operation.created = operation.updated = rfc3339(wall);
  for (const char c : request.method)
    operation.method += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  operation.uri = request.path;
  operation.begins = now + options_.pending;
  operation.ends = operation.begins + options_.in_progress;
  if (const auto late = befalls(FaultKind::kOpLate))
    operation.ends = now + late->delay_or_default();
  if (befalls(FaultKind::kOpStuck)) operation.fate = Fate::kStuck;
  if (const auto lie = befalls(FaultKind::kOpLiesDone)) {
    operation.fate = Fate::kLiesDone;
    operation.hidden_until = now + lie->delay_or_default();
  }
  if (befalls(FaultKind::kOpLiesFailed)) operation.fate = Fate::kLiesFailed;
  if (befalls(FaultKind::kOpHalf)) operation.fate = Fate::kHalf;
  operation.gone = befalls(FaultKind::kOpGone).has_value();
  NmxmResponse response = nmxm_json(202, {{"operationId", operation.id}});
  response.location = "/nmx/v1/operations/" + operation.id;
  operations_.push_back(std::move(operation));
  const auto finished = [](const Operation& old) { return old.terminal(); };
  while (operations_.size() > kOperationsMax && finished(operations_.front()))
    operations_.pop_front();
  if (operations_.size() > 2 * kOperationsMax)
    operations_.pop_front();  // stuck ones must not pile up
  return response;
}

}  // namespace imex::rack
