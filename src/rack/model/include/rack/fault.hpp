/// Faults by name: what can go wrong with a rack, its controller and its manager, where, when, how
/// often. The names and effects are those of docs/formats/rack-control.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace imex::rack {

enum class FaultKind : std::uint8_t {
  // the fabric controller and its rack
  kLinkDown,
  kLinkFlap,
  kContainedError,
  kGpuMissing,
  kGpuSwapped,
  kSwitchDegraded,
  kTrayPartitionLost,
  kUnreachable,
  kBlackHole,
  kSlow,
  kErrorButApplied,
  kLateApply,
  kAppliedButHidden,
  kSuccessNotApplied,
  kPartialApply,
  kEmptyPartition,
  kForeignPartition,
  kIdReuse,
  kStillBound,
  kStillListed,
  kGroupsExhausted,
  kBadLimit,
  kControllerRestart,
  kControllerBlip,
  kFailover,
  kSplit,
  kWrongDomain,
  kAmnesia,
  kDbError,
  kDbCorrupt,
  kStaleClique,
  kNoPartition,
  kSameCliqueElsewhere,
  kSeveralDomains,
  kVersion,
  kCertRotated,
  kCertExpired,
  kNameCollision,
  kIndexConfusion,
  // the manager over many domains
  kOpStuck,
  kOpLate,
  kOpLiesDone,
  kOpLiesFailed,
  kOpHalf,
  kOpGone,
  kIdsChange,
  kStaleInventory,
  kEmptyMembers,
  kDoublePost,
  kControllerLost,
  kGatewayError,
  kAuthExpired,
};

/// How a fault takes effect.
enum class FaultShape : std::uint8_t {
  kState,  ///< holds from its start to its end
  kEvent,  ///< happens once, at its start
  kCall,   ///< befalls calls that come between start and end, by probability and count
};

struct FaultFacts {
  FaultKind kind;
  std::string_view name;
  FaultShape shape;
  bool manager;         ///< of the manager, not of one domain
  Nanos delay_default;  ///< where `delay` means something
};
[[nodiscard]] std::span<const FaultFacts> all_faults() noexcept;
[[nodiscard]] const FaultFacts& facts_of(FaultKind kind) noexcept;
/// Errors: kInvalidArgument, with the known names as hint.
[[nodiscard]] Result<FaultKind> find_fault(std::string_view name);

/// What is not set matches everything.
struct Fault {
  std::uint64_t id = 0;  ///< given by FaultSet
  FaultKind kind = FaultKind::kLinkDown;
  std::optional<unsigned> tray{}, switch_tray{}, chip{},
      trunk{};                         ///< numbered over the domain, from 0
  std::optional<std::uint32_t> gpu{};  ///< module id within `tray`
  std::optional<unsigned> link{};      ///< of a GPU, from 1
  std::optional<std::uint32_t> partition{};
  std::string method{};
  double probability = 1;
  std::optional<std::uint32_t> count{};  ///< calls, flaps
  Time starts{}, ends = kNever;
  Nanos delay{0};      ///< how slow, how late, for how long, how often; 0: the default of the kind
  std::string text{};  ///< see the kind
  std::optional<std::uint32_t> number{};  ///< see the kind
  bool begun = false;  ///< kState: holds now; decided by probability at the start

  [[nodiscard]] Nanos delay_or_default() const noexcept;
};

/// Half a period of link-flap; never so short that nothing else gets done.
[[nodiscard]] Nanos half_flap(const Fault& fault) noexcept;

/// What a call is about, for faults of shape kCall.
struct CallFacts {
  std::string_view method;
  std::uint32_t partition = 0;
};

inline constexpr std::size_t kFaultsMax = 1024;

class FaultSet {
 public:
  /// Errors: kResourceExhausted; kInvalidArgument (probability, times).
  [[nodiscard]] Result<std::uint64_t> add(Fault fault);
  [[nodiscard]] bool remove(std::uint64_t id);
  /// How many were removed.
  std::size_t remove_if_kind(FaultKind kind);
  std::size_t remove_all();
  [[nodiscard]] const std::map<std::uint64_t, Fault>& all() const noexcept { return faults_; }

  /// Begins what is due, drops what has ended, and returns the events that happen now.
  [[nodiscard]] std::vector<Fault> advance(Time now, Random& random);
  [[nodiscard]] Time next_change() const noexcept;

  /// A state that holds now; the oldest if several do.
  [[nodiscard]] const Fault* holds(FaultKind kind) const noexcept;
  /// Uses a fault of shape kCall up by one, if one befalls this call.
  [[nodiscard]] std::optional<Fault> befalls(FaultKind kind, const CallFacts& call, Time now,
                                             Random& random);

 private:
  std::map<std::uint64_t, Fault> faults_;
  std::uint64_t next_id_ = 1;
};

}  // namespace imex::rack
