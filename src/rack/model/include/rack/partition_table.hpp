/// The partitions of one domain and what is always true of them: a GPU is in at most one, ids and
/// names are unique, the sum of the multicast limits stays within the budget. Only storage; which
/// request is refused how is decided in Domain.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rack/codes.hpp"
#include "rack/personality.hpp"
#include "rack/topology.hpp"

namespace imex::rack {

inline constexpr std::uint32_t kDefaultPartitionId = 32'766;
inline constexpr std::uint32_t kPartitionIdMax = 32'766;
inline constexpr std::uint32_t kGroupsMax = 1024;  ///< multicast groups of a domain
inline constexpr std::size_t kNameBytesMax = 255;

/// The uid stays a member when its GPU is gone, and returns with it.
struct Member {
  GpuPlace place;
  std::uint64_t uid = 0;
  friend auto operator<=>(const Member&, const Member&) = default;
};

struct Partition {
  std::uint32_t id = 0;
  std::string name;
  PartitionKind kind = PartitionKind::kUndefined;
  std::vector<Member> members;  ///< in order of place
  ResiliencyMode mode = ResiliencyMode::kDefault;
  std::uint32_t groups = 0;  ///< multicast limit, fixed when it was made
  friend bool operator==(const Partition&, const Partition&) = default;
};

class PartitionTable {
 public:
  [[nodiscard]] const std::map<std::uint32_t, Partition>& all() const noexcept {
    return partitions_;
  }
  [[nodiscard]] const Partition* find(std::uint32_t id) const;
  [[nodiscard]] const Partition* find_name(std::string_view name) const;
  /// Id of the partition that holds a GPU; 0: none.
  [[nodiscard]] std::uint32_t owner(std::uint64_t uid) const;
  [[nodiscard]] std::uint32_t groups_left() const noexcept { return kGroupsMax - groups_used_; }
  /// The id that the next create without one gets; 0: none is left. Changes nothing.
  [[nodiscard]] std::uint32_t next_id(IdAllocation how) const;

  /// The id must be free, the members in no partition, the groups within what is left.
  void add(Partition partition);
  /// No effect if there is none.
  void remove(std::uint32_t id);
  void add_members(std::uint32_t id, PartitionKind kind, const std::vector<Member>& members);
  void remove_members(std::uint32_t id, const std::vector<std::uint64_t>& uids);
  void clear();
  [[nodiscard]] std::uint32_t last_id() const noexcept { return last_id_; }
  void set_last_id(std::uint32_t id) noexcept { last_id_ = id; }

 private:
  std::map<std::uint32_t, Partition> partitions_;
  std::unordered_map<std::uint64_t, std::uint32_t> owners_;
  std::uint32_t groups_used_ = 0;
  std::uint32_t last_id_ = 0;  ///< handed out last, for allocation upward
};

}  // namespace imex::rack
