/// Between the messages of forge.proto and the types of Administration. Only for the .cpp files
/// that name protobuf anyway.
#pragma once

#include <fmt/format.h>
#include <forge/forge.pb.h>

#include "base/text.hpp"
#include "partition/forge/administration.hpp"

namespace imex::partition::forge {

namespace pb = ::forge;

// ---- From the wire. Errors: kInvalidArgument, which names the field.
template <class IdType>
[[nodiscard]] Result<IdType> id_from(const pb::UUID& id, std::string_view field) {
  if (id.value().empty()) return fail(Errc::kInvalidArgument, fmt::format("{} is missing", field));
  auto uuid = Uuid::parse(id.value());
  if (!uuid) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{} '{}' is no UUID", field, printable(id.value())));
  }
  return IdType{*uuid};
}
template <class IdType>
[[nodiscard]] Result<std::vector<IdType>> ids_from(
    const google::protobuf::RepeatedPtrField<pb::UUID>& ids, std::string_view field) {
  std::vector<IdType> found;
  found.reserve(static_cast<std::size_t>(ids.size()));
  for (const pb::UUID& id : ids) {
    IMEX_TRY(const IdType one, id_from<IdType>(id, field));
    found.push_back(one);
  }
  return found;
}
[[nodiscard]] Result<NewPartition> from_wire(const pb::NVLinkLogicalPartitionCreationRequest& in);
[[nodiscard]] Result<PartitionUpdate> from_wire(const pb::NVLinkLogicalPartitionUpdateRequest& in);
[[nodiscard]] Result<NvlinkInfo> from_wire(const pb::MachineNVLinkInfo& in);
[[nodiscard]] Result<InstanceUpdate> from_wire(const pb::InstanceConfigUpdateRequest& in);
[[nodiscard]] std::string issue_text(const pb::InstanceReleaseRequest& in);

// ---- To the wire
void to_wire(const PartitionView& view, pb::NVLinkLogicalPartition& out);
void to_wire(const PhysicalPartition& row, pb::NVLinkPartition& out);
void to_wire(const MachineView& view, pb::Machine& out);
void to_wire(const InstanceView& view, pb::Instance& out);

}  // namespace imex::partition::forge
