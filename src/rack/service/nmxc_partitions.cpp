#include <optional>
#include <set>

#include "nmxc_handlers.hpp"

namespace imex::rack::nmxc {

namespace {

std::size_t tray_count(const Partition& partition) {
  std::set<Location> trays;
  for (const Member& member : partition.members) trays.insert(member.place.location);
  return trays.size();
}

/// Nothing: the filter is not one that is known.
template <class Request>
std::optional<std::vector<const Partition*>> filtered(const Domain& domain,
                                                      const Request& request) {
  const auto attr = request.info_attr();
  if (attr > ::nmx_c::PARTITION_INFO_ATTR_BY_NUMBER_OF_COMPUTE_NODES || attr < 0) return {};
  if (attr == ::nmx_c::PARTITION_INFO_ATTR_UNDEFINED && !domain.personality().lenient_attr)
    return {};
  std::vector<const Partition*> found = domain.partitions();
  std::erase_if(found, [&](const Partition* partition) {
    if (attr == ::nmx_c::PARTITION_INFO_ATTR_BY_NUMBER_OF_GPUS &&
        partition->members.size() != request.num_gpus())
      return true;
    if (attr == ::nmx_c::PARTITION_INFO_ATTR_BY_NUMBER_OF_COMPUTE_NODES &&
        tray_count(*partition) != request.num_nodes()) {
      return true;
    }
    return request.health() != 0 && static_cast<int>(request.health()) !=
                                        static_cast<int>(domain.partition_health(*partition));
  });
  return found;
}

void fill_partition(const Domain& domain, const Partition& partition,
                    ::nmx_c::PartitionInfo& info) {
  info.mutable_partition_id()->set_partition_id(partition.id);
  info.set_name(partition.name);
  info.set_num_gpus(static_cast<std::uint32_t>(partition.members.size()));
  for (const Member& member : partition.members) {
    ::nmx_c::GpuLocation& location = *info.add_gpu_location_list();
    fill(member.place.location, *location.mutable_loc());
    location.set_gpu_id(member.place.module);
    info.add_gpu_uid_list(member.uid);
  }
  info.set_health(static_cast<::nmx_c::PartitionHealth>(domain.partition_health(partition)));
  info.set_partition_type(static_cast<::nmx_c::PartitionType>(partition.kind));
  info.set_num_allocated_multicast_groups(partition.groups);
  info.mutable_attr()->set_resiliency_mode(static_cast<::nmx_c::ResiliencyMode>(partition.mode));
  info.mutable_attr()->set_multicast_groups_limit(partition.groups);
}

GpuPlace read_place(const ::nmx_c::GpuLocation& from) { return {read(from.loc()), from.gpu_id()}; }

ReturnCode update(Domain& domain, bool add, const ::nmx_c::UpdatePartitionRequest& request,
                  ::nmx_c::UpdatePartitionResponse& answer, const Moment& moment) {
  UpdatePartition change{
      .add = add, .id = request.partition_id().partition_id(), .name = request.name(), .gpus = {}};
  for (const ::nmx_c::GpuLocation& gpu : request.location_list())
    change.gpus.emplace_back(read_place(gpu));
  for (const std::uint64_t uid : request.gpu_uid()) change.gpus.emplace_back(uid);
  const ChangeResult result = domain.change(change, moment.now);
  if (result.partition != 0) answer.mutable_partition_id()->set_partition_id(result.partition);
  return result.code;
}

}  // namespace

ReturnCode handle(Domain& domain, const ::nmx_c::GetPartitionCountRequest& request,
                  ::nmx_c::GetPartitionCountResponse& answer, const Moment& /*moment*/) {
  const auto found = filtered(domain, request);
  if (!found) return ReturnCode::kBadParam;
  answer.set_num_partitions(static_cast<std::uint32_t>(found->size()));
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetPartitionIdListRequest& request,
                  ::nmx_c::GetPartitionIdListResponse& answer, const Moment& /*moment*/) {
  const auto found = filtered(domain, request);
  if (!found) return ReturnCode::kBadParam;
  for (const Partition* partition : *found) {
    if (request.num_partitions() != 0 &&
        static_cast<std::uint32_t>(answer.partition_list_size()) >= request.num_partitions()) {
      break;
    }
    ::nmx_c::Partition& listed = *answer.add_partition_list();
    listed.mutable_partition_id()->set_partition_id(partition->id);
    listed.set_num_gpus(static_cast<std::uint32_t>(partition->members.size()));
  }
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::GetPartitionInfoListRequest& request,
                  ::nmx_c::GetPartitionInfoListResponse& answer, const Moment& /*moment*/) {
  std::set<std::uint32_t> ids;
  for (const ::nmx_c::PartitionId& id : request.partition_id_list()) ids.insert(id.partition_id());
  const std::set<std::string_view> names(request.partition_name_list().begin(),
                                         request.partition_name_list().end());
  for (const Partition* partition : domain.partitions()) {
    const bool all = ids.empty() && names.empty();
    if (!all && !ids.contains(partition->id) && !names.contains(partition->name)) continue;
    fill_partition(domain, *partition, *answer.add_partition_info_list());
  }
  return ReturnCode::kSuccess;
}

ReturnCode handle(Domain& domain, const ::nmx_c::CreatePartitionRequest& request,
                  ::nmx_c::CreatePartitionResponse& answer, const Moment& moment) {
  CreatePartition change;
  change.name = request.name();
  change.id = request.partition_id().partition_id();
  change.groups = request.attr().multicast_groups_limit();
  change.mode = static_cast<ResiliencyMode>(request.attr().resiliency_mode());
  for (const ::nmx_c::GpuResourceId& gpu : request.gpu_resource_id()) {
    switch (gpu.resource_id_case()) {
      case ::nmx_c::GpuResourceId::kGpuUid:
        change.gpus.emplace_back(gpu.gpu_uid());
        break;
      case ::nmx_c::GpuResourceId::kGpuLocation:
        change.gpus.emplace_back(read_place(gpu.gpu_location()));
        break;
      default:
        return ReturnCode::kBadParam;  // names no GPU
    }
  }
  const ChangeResult result = domain.change(change, moment.now);
  if (result.code == ReturnCode::kSuccess)
    answer.mutable_partition_id()->set_partition_id(result.partition);
  return result.code;
}

ReturnCode handle(Domain& domain, const ::nmx_c::DeletePartitionRequest& request,
                  ::nmx_c::DeletePartitionResponse& answer, const Moment& moment) {
  const ChangeResult result = domain.change(
      DeletePartition{request.partition_id().partition_id(), request.name()}, moment.now);
  if (result.partition != 0) answer.mutable_partition_id()->set_partition_id(result.partition);
  return result.code;
}

ReturnCode add_gpus(Domain& domain, const ::nmx_c::UpdatePartitionRequest& request,
                    ::nmx_c::UpdatePartitionResponse& answer, const Moment& moment) {
  return update(domain, true, request, answer, moment);
}

ReturnCode remove_gpus(Domain& domain, const ::nmx_c::UpdatePartitionRequest& request,
                       ::nmx_c::UpdatePartitionResponse& answer, const Moment& moment) {
  return update(domain, false, request, answer, moment);
}

}  // namespace imex::rack::nmxc
