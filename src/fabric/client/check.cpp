#include "fabric/check.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"

namespace imex::fabric {
namespace {

Outcome<void> refuse(std::string message, std::string hint = {}) {
  return tl::unexpected(
      Failure{.error = {Errc::kInvalidArgument, std::move(message), std::move(hint)}});
}

std::vector<std::uint64_t> as_set(std::vector<std::uint64_t> uids) {
  std::sort(uids.begin(), uids.end());
  uids.erase(std::unique(uids.begin(), uids.end()), uids.end());
  return uids;
}

Outcome<void> check_uids(const std::vector<std::uint64_t>& uids, std::string_view what) {
  if (uids.size() > kDomainGpusMax)
    return refuse(fmt::format("{}: {} GPUs, more than the {} of any domain", what, uids.size(),
                              kDomainGpusMax));
  if (std::find(uids.begin(), uids.end(), 0) != uids.end())
    return refuse(fmt::format("{}: GPU uid 0 is none", what),
                  "uids are fabric GUIDs; read them by observe()");
  return {};
}

Result<void> broken(std::string message) {
  return fail(Errc::kDataLoss, std::move(message),
              "the fabric manager breaks its own rules: look at its log and version");
}

/// Each GPU's partition by the lists of members; a GPU in two of them is disputed at once.
void find_disputes(Snapshot& snapshot) {
  struct Membership {
    std::uint64_t uid;
    std::uint32_t partition;
  };
  std::vector<Membership> memberships;
  for (const ObservedPartition& partition : snapshot.partitions)
    for (const std::uint64_t uid : partition.gpu_uids) memberships.push_back({uid, partition.id});
  std::sort(memberships.begin(), memberships.end(),
            [](const Membership& a, const Membership& b) { return a.uid < b.uid; });

  snapshot.disputed.clear();
  for (std::size_t i = 1; i < memberships.size(); ++i)
    if (memberships[i - 1].uid == memberships[i].uid)
      snapshot.disputed.push_back(memberships[i].uid);
  for (const ObservedGpu& gpu : snapshot.gpus) {
    const auto at = std::lower_bound(
        memberships.begin(), memberships.end(), gpu.uid,
        [](const Membership& entry, std::uint64_t uid) { return entry.uid < uid; });
    const bool listed = at != memberships.end() && at->uid == gpu.uid;
    const bool agree = listed ? gpu.partition_id == at->partition : !gpu.partition_id;
    if (!agree) snapshot.disputed.push_back(gpu.uid);
  }
  snapshot.disputed = as_set(std::move(snapshot.disputed));
}

Result<void> check_gpus(std::vector<ObservedGpu>& gpus) {
  if (gpus.size() > kDomainGpusMax)
    return broken(
        fmt::format("{} GPUs in one domain, at most {} are read", gpus.size(), kDomainGpusMax));
  std::sort(gpus.begin(), gpus.end(),
            [](const ObservedGpu& a, const ObservedGpu& b) { return a.uid < b.uid; });
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].uid == 0) return broken("a GPU without a uid is listed");
    if (i > 0 && gpus[i - 1].uid == gpus[i].uid)
      return broken(fmt::format("GPU {:#x} is listed twice", gpus[i].uid));
  }
  return {};
}

Result<void> check_partitions(std::vector<ObservedPartition>& partitions) {
  if (partitions.size() > kDomainPartitionsMax) {
    return broken(fmt::format("{} partitions in one domain, at most {} are read", partitions.size(),
                              kDomainPartitionsMax));
  }
  std::sort(partitions.begin(), partitions.end(),
            [](const ObservedPartition& a, const ObservedPartition& b) { return a.id < b.id; });
  std::size_t members = 0;
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    ObservedPartition& partition = partitions[i];
    if (partition.id == 0) return broken("a partition without an id is listed");
    if (i > 0 && partitions[i - 1].id == partition.id)
      return broken(fmt::format("partition {} is listed twice", partition.id));
    members += partition.gpu_uids.size();
    if (members > kDomainGpusMax)
      return broken(
          fmt::format("more than {} GPUs in the partitions of one domain", kDomainGpusMax));
    std::sort(partition.gpu_uids.begin(), partition.gpu_uids.end());
    if (std::adjacent_find(partition.gpu_uids.begin(), partition.gpu_uids.end()) !=
        partition.gpu_uids.end())
      return broken(fmt::format("partition {} lists a GPU twice", partition.id));
    if (!partition.gpu_uids.empty() && partition.gpu_uids.front() == 0)
      return broken(fmt::format("partition {} lists a GPU without a uid", partition.id));
  }
  return {};
}

}  // namespace

Outcome<void> check_wanted(const CreatePartition& wanted, const ManagerProfile& profile) {
  if (wanted.name.empty())
    return refuse("create a partition: no name",
                  "a name is how its owner is known after a lost answer");
  if (wanted.name.size() > profile.name_bytes_max) {
    return refuse(fmt::format("create a partition: a name of {} bytes, at most {} with {}",
                              wanted.name.size(), profile.name_bytes_max, profile.protocol),
                  "shorten it with a hash, so that two long names cannot become equal");
  }
  const bool fit = std::all_of(wanted.name.begin(), wanted.name.end(),
                               [](char c) { return c >= 0x20 && c <= 0x7e; });
  if (!fit)
    return refuse(
        fmt::format("create partition '{}': names are printable ASCII", printable(wanted.name)));
  if (wanted.id > kDefaultPartitionId)
    return refuse(fmt::format("create partition '{}': id {} is above {}", wanted.name, wanted.id,
                              kDefaultPartitionId));
  if (wanted.gpu_uids.empty() && !profile.empty_partitions)
    return refuse(fmt::format("create partition '{}': no GPUs, and {} makes no empty partition",
                              wanted.name, profile.protocol));
  return check_uids(wanted.gpu_uids, fmt::format("create partition '{}'", wanted.name));
}

Outcome<void> check_target(const PartitionTarget& target) {
  if (target.id == 0 && target.name.empty())
    return refuse("neither id nor name of a partition is given");
  if (target.name.size() > kPartitionNameMax)
    return refuse(fmt::format("a partition name of {} bytes, at most {}", target.name.size(),
                              kPartitionNameMax));
  return {};
}

Outcome<void> check_change(const MembershipChange& change) {
  if (auto fits = check_uids(change.remove, "remove GPUs"); !fits) return fits;
  if (auto fits = check_uids(change.add, "add GPUs"); !fits) return fits;
  const auto removed = as_set(change.remove), added = as_set(change.add);
  std::vector<std::uint64_t> both;
  std::set_intersection(removed.begin(), removed.end(), added.begin(), added.end(),
                        std::back_inserter(both));
  if (!both.empty())
    return refuse(fmt::format("GPU {:#x} is to be removed and to be added", both.front()));
  return {};
}

std::string describe_target(const PartitionTarget& target) {
  if (target.id == 0) return fmt::format("partition '{}'", printable(target.name));
  if (target.name.empty()) return fmt::format("partition {}", target.id);
  return fmt::format("partition {} ('{}')", target.id, printable(target.name));
}

MembershipChange reduce(const MembershipChange& change, const std::vector<std::uint64_t>& members) {
  const auto now = as_set(members), removed = as_set(change.remove), added = as_set(change.add);
  MembershipChange rest;
  std::set_intersection(removed.begin(), removed.end(), now.begin(), now.end(),
                        std::back_inserter(rest.remove));
  std::set_difference(added.begin(), added.end(), now.begin(), now.end(),
                      std::back_inserter(rest.add));
  return rest;
}

std::vector<std::uint64_t> apply(const MembershipChange& change,
                                 std::vector<std::uint64_t> members) {
  const auto now = as_set(std::move(members)), removed = as_set(change.remove),
             added = as_set(change.add);
  std::vector<std::uint64_t> kept, result;
  std::set_difference(now.begin(), now.end(), removed.begin(), removed.end(),
                      std::back_inserter(kept));
  std::set_union(kept.begin(), kept.end(), added.begin(), added.end(), std::back_inserter(result));
  return result;
}

Result<void> finish_snapshot(Snapshot& snapshot) {
  IMEX_CHECK_OK(check_gpus(snapshot.gpus));
  IMEX_CHECK_OK(check_partitions(snapshot.partitions));
  if (snapshot.nodes.size() > kDomainGpusMax)
    return broken(fmt::format("{} compute nodes in one domain", snapshot.nodes.size()));
  std::sort(snapshot.nodes.begin(), snapshot.nodes.end(),
            [](const ObservedNode& a, const ObservedNode& b) {
              const auto key = [](const HostPlace& place) {
                return std::make_tuple(place.chassis_id, place.slot_id, place.host_id);
              };
              return key(a.place) < key(b.place);
            });
  find_disputes(snapshot);
  return {};
}

Result<std::string> bounded_text(std::string_view text, std::size_t bytes_max,
                                 std::string_view what) {
  if (text.size() <= bytes_max) return std::string(text);
  return fail(Errc::kDataLoss, fmt::format("{}: text of {} bytes, at most {} are read", what,
                                           text.size(), bytes_max));
}

}  // namespace imex::fabric
