/// Rules that hold for every fabric manager: what a caller may ask, and what an answer must be like
/// before it becomes a Snapshot. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fabric/manager.hpp"

namespace imex::fabric {

/// Longest text of any kind that is taken from a manager.
inline constexpr std::size_t kAnswerTextMax = 4'096;
inline constexpr std::size_t kPartitionNameMax = 255;

// Requests. Errors: kInvalidArgument; nothing was sent.
[[nodiscard]] Outcome<void> check_wanted(const CreatePartition& wanted,
                                         const ManagerProfile& profile);
[[nodiscard]] Outcome<void> check_target(const PartitionTarget& target);
[[nodiscard]] Outcome<void> check_change(const MembershipChange& change);

/// "partition 7", "partition 'lp-7'", "partition 7 ('lp-7')".
[[nodiscard]] std::string describe_target(const PartitionTarget& target);

/// What has to be done to a partition with these members, both lists ascending and each uid once.
[[nodiscard]] MembershipChange reduce(const MembershipChange& change,
                                      const std::vector<std::uint64_t>& members);
/// `members` after the change, ascending.
[[nodiscard]] std::vector<std::uint64_t> apply(const MembershipChange& change,
                                               std::vector<std::uint64_t> members);

/// Orders all lists, checks that each id and uid is there once and within its bounds, and fills
/// `disputed`. Errors: kDataLoss, which names the rule that the manager broke.
[[nodiscard]] Result<void> finish_snapshot(Snapshot& snapshot);

/// Errors: kDataLoss with "`what`: ..." where the text is longer than `bytes_max`.
[[nodiscard]] Result<std::string> bounded_text(std::string_view text, std::size_t bytes_max,
                                               std::string_view what);

}  // namespace imex::fabric
