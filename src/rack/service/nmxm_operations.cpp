// Operations of the manager: from recorded to done, and what they do to a domain.
#include <algorithm>

#include <fmt/format.h>

#include "nmxm_manager.hpp"

namespace imex::rack {

namespace {

/// Members as the network names them now; empty if the partition is gone.
std::vector<GpuRef> current_members(const Domain& domain, std::uint32_t id) {
  std::vector<GpuRef> found;
  const Partition* partition = domain.table().find(id);
  if (partition == nullptr) return found;
  for (const Member& member : partition->members) {
    if (partition->kind == PartitionKind::kByLocation) {
      found.emplace_back(member.place);
    } else {
      found.emplace_back(member.uid);
    }
  }
  return found;
}

std::vector<GpuRef> without(const std::vector<GpuRef>& from, const std::vector<GpuRef>& these) {
  std::vector<GpuRef> left;
  for (const GpuRef& gpu : from) {
    if (std::ranges::find(these, gpu) == these.end()) left.push_back(gpu);
  }
  return left;
}

}  // namespace

nlohmann::json NmxmManager::operation_object(const Operation& operation) const {
  nlohmann::json object = {{"ID", operation.id},
                           {"CreatedAt", operation.created},
                           {"UpdatedAt", operation.updated},
                           {"Status", operation.status},
                           {"Percentage", operation.percentage},
                           {"CurrentStep", operation.step},
                           {"Request",
                            {{"Method", operation.method},
                             {"URI", operation.uri},
                             {"Cancellable", !operation.terminal()},
                             {"Body", operation.body}}}};
  if (operation.terminal()) {
    object["Result"] = {
        {"Data", operation.data}, {"Error", operation.error}, {"Details", operation.details}};
  }
  return object;
}

NmxmResponse NmxmManager::operations(const NmxmRequest& request, const std::string& id, Time now,
                                     Moment wall) {
  if (id.empty()) {
    if (request.method != "GET") return nmxm_error(405, "method not allowed here");
    nlohmann::json list = nlohmann::json::array();
    for (const Operation& operation : operations_) {
      if (!operation.gone) list.push_back(operation_object(operation));
    }
    return nmxm_json(200, list);
  }
  if (!is_entity_id(id)) return nmxm_error(400, "operation id: want 24 hexadecimal digits");
  const auto found = std::ranges::find(operations_, id, &Operation::id);
  if (found == operations_.end() || found->gone) return nmxm_error(404, "no such operation");
  if (request.method == "GET") return nmxm_json(200, operation_object(*found));
  if (request.method != "DELETE") return nmxm_error(405, "method not allowed here");
  if (found->terminal()) return nmxm_error(409, "the operation has ended");
  found->status = "cancelled";
  found->step = "cancelled";
  found->updated = rfc3339(wall);
  Operation cancel;
  cancel.domain = found->domain;
  cancel.cancel = true;
  return accept(std::move(cancel), request, now, wall);
}

void NmxmManager::step(Operation& operation, Time now, Moment wall) {
  if (operation.terminal()) return;
  if (operation.status == "pending" && operation.begins <= now) {
    operation.status = "in-progress";
    operation.step = "asking the controller";
    operation.percentage = 50;
    operation.updated = rfc3339(wall);
    if (operation.fate == Fate::kStuck) operation.ends = kNever;
  }
  if (operation.status != "in-progress" || operation.ends > now) return;
  const ReturnCode code = operation.cancel ? ReturnCode::kSuccess : execute(operation, now);
  const bool failed = code != ReturnCode::kSuccess || operation.fate == Fate::kLiesFailed ||
                      operation.fate == Fate::kHalf;
  operation.updated = rfc3339(wall);
  operation.percentage = 100;
  operation.status = failed ? "failed" : "completed";
  operation.step = operation.status;
  if (failed) {
    operation.error =
        return_code_name(code == ReturnCode::kSuccess ? ReturnCode::kGenericError : code);
    operation.details = "the controller refused the change";
  } else if (!operation.cancel) {
    operation.data = {{"ID", known_partition(operation.domain, operation.number, wall).id},
                      {"PartitionID", operation.number}};
  }
}

/// Deltas to the controller, removal before addition; stops at the first refusal.
ReturnCode NmxmManager::execute(Operation& operation, Time now) {
  if (lost(operation.domain)) return ReturnCode::kTimeout;
  DomainHost& host = *entries_[operation.domain].controller.host;
  MutexLock lock(host.mutex);
  Domain& domain = host.domain;
  domain.advance(now);
  if (!domain.ready()) return ReturnCode::kNotReady;
  if (operation.fate == Fate::kHalf) operation.members.resize(operation.members.size() / 2);
  ChangeResult result;
  if (operation.method == "post") {
    result = domain.change(
        CreatePartition{operation.name, operation.members, ResiliencyMode::kDefault, 0, 0}, now);
    if (result.code == ReturnCode::kSuccess) operation.number = result.partition;
    if (result.code == ReturnCode::kSuccess && operation.fate == Fate::kLiesDone) {
      hidden_[{operation.domain, operation.number}] = operation.hidden_until;
    }
  } else if (operation.method == "delete") {
    result = domain.change(DeletePartition{operation.number, {}}, now);
  } else {
    std::vector<GpuRef> before = current_members(domain, operation.number);
    std::vector<GpuRef> wanted = operation.members;
    if (operation.number == kDefaultPartitionId) {  // takes both kinds: compare by uid
      for (GpuRef& gpu : wanted) {
        const auto* place = std::get_if<GpuPlace>(&gpu);
        const auto index = place == nullptr ? std::nullopt : domain.find_place(*place);
        if (index) gpu = domain.uid_of(*index);
      }
    }
    const std::vector<GpuRef> leaving = without(before, wanted), coming = without(wanted, before);
    if (!leaving.empty())
      result = domain.change(UpdatePartition{false, operation.number, {}, leaving}, now);
    if (result.code == ReturnCode::kSuccess && !coming.empty()) {
      result = domain.change(UpdatePartition{true, operation.number, {}, coming}, now);
    }
  }
  host.settle(nullptr, {});
  return result.code;
}

}  // namespace imex::rack
