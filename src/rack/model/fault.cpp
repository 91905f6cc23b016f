#include "rack/fault.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace imex::rack {

namespace {

using namespace std::chrono_literals;

constexpr auto kState = FaultShape::kState;
constexpr auto kEvent = FaultShape::kEvent;
constexpr auto kCall = FaultShape::kCall;

// In the order of FaultKind: facts_of() indexes it.
constexpr std::array kFacts = {
    FaultFacts{FaultKind::kLinkDown, "link-down", kState, false, 0s},
    FaultFacts{FaultKind::kLinkFlap, "link-flap", kState, false, 1s},
    FaultFacts{FaultKind::kContainedError, "contained-error", kState, false, 0s},
    FaultFacts{FaultKind::kGpuMissing, "gpu-missing", kState, false, 0s},
    FaultFacts{FaultKind::kGpuSwapped, "gpu-swapped", kEvent, false, 0s},
    FaultFacts{FaultKind::kSwitchDegraded, "switch-degraded", kState, false, 0s},
    FaultFacts{FaultKind::kTrayPartitionLost, "tray-partition-lost", kEvent, false, 0s},
    FaultFacts{FaultKind::kUnreachable, "unreachable", kState, false, 0s},
    FaultFacts{FaultKind::kBlackHole, "black-hole", kCall, false, 0s},
    FaultFacts{FaultKind::kSlow, "slow", kCall, false, 5s},
    FaultFacts{FaultKind::kErrorButApplied, "error-but-applied", kCall, false, 0s},
    FaultFacts{FaultKind::kLateApply, "late-apply", kCall, false, 5s},
    FaultFacts{FaultKind::kAppliedButHidden, "applied-but-hidden", kCall, false, 3600s},
    FaultFacts{FaultKind::kSuccessNotApplied, "success-not-applied", kCall, false, 0s},
    FaultFacts{FaultKind::kPartialApply, "partial-apply", kCall, false, 0s},
    FaultFacts{FaultKind::kEmptyPartition, "empty-partition", kEvent, false, 0s},
    FaultFacts{FaultKind::kForeignPartition, "foreign-partition", kEvent, false, 0s},
    FaultFacts{FaultKind::kIdReuse, "id-reuse", kState, false, 0s},
    FaultFacts{FaultKind::kStillBound, "still-bound", kState, false, 5s},
    FaultFacts{FaultKind::kStillListed, "still-listed", kState, false, 25s},
    FaultFacts{FaultKind::kGroupsExhausted, "groups-exhausted", kState, false, 0s},
    FaultFacts{FaultKind::kBadLimit, "bad-limit", kState, false, 0s},
    FaultFacts{FaultKind::kControllerRestart, "controller-restart", kEvent, false, 10s},
    FaultFacts{FaultKind::kControllerBlip, "controller-blip", kEvent, false, 2s},
    FaultFacts{FaultKind::kFailover, "failover", kState, false, 0s},
    FaultFacts{FaultKind::kSplit, "split", kState, false, 0s},
    FaultFacts{FaultKind::kWrongDomain, "wrong-domain", kState, false, 0s},
    FaultFacts{FaultKind::kAmnesia, "amnesia", kEvent, false, 0s},
    FaultFacts{FaultKind::kDbError, "db-error", kState, false, 0s},
    FaultFacts{FaultKind::kDbCorrupt, "db-corrupt", kState, false, 0s},
    FaultFacts{FaultKind::kStaleClique, "stale-clique", kState, false, 0s},
    FaultFacts{FaultKind::kNoPartition, "no-partition", kEvent, false, 0s},
    FaultFacts{FaultKind::kSameCliqueElsewhere, "same-clique-elsewhere", kState, false, 0s},
    FaultFacts{FaultKind::kSeveralDomains, "several-domains", kState, false, 0s},
    FaultFacts{FaultKind::kVersion, "version", kState, false, 0s},
    FaultFacts{FaultKind::kCertRotated, "cert-rotated", kState, false, 0s},
    FaultFacts{FaultKind::kCertExpired, "cert-expired", kState, false, 0s},
    FaultFacts{FaultKind::kNameCollision, "name-collision", kState, false, 0s},
    FaultFacts{FaultKind::kIndexConfusion, "index-confusion", kState, false, 0s},
    FaultFacts{FaultKind::kOpStuck, "op-stuck", kCall, true, 0s},
    FaultFacts{FaultKind::kOpLate, "op-late", kCall, true, 30s},
    FaultFacts{FaultKind::kOpLiesDone, "op-lies-done", kCall, true, 3600s},
    FaultFacts{FaultKind::kOpLiesFailed, "op-lies-failed", kCall, true, 0s},
    FaultFacts{FaultKind::kOpHalf, "op-half", kCall, true, 0s},
    FaultFacts{FaultKind::kOpGone, "op-gone", kCall, true, 0s},
    FaultFacts{FaultKind::kIdsChange, "ids-change", kEvent, true, 0s},
    FaultFacts{FaultKind::kStaleInventory, "stale-inventory", kState, true, 0s},
    FaultFacts{FaultKind::kEmptyMembers, "empty-members", kState, true, 0s},
    FaultFacts{FaultKind::kDoublePost, "double-post", kCall, true, 0s},
    FaultFacts{FaultKind::kControllerLost, "controller-lost", kState, true, 0s},
    FaultFacts{FaultKind::kGatewayError, "gateway-error", kCall, true, 0s},
    FaultFacts{FaultKind::kAuthExpired, "auth-expired", kCall, true, 0s},
};

constexpr bool facts_are_in_order() {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (kFacts[i].kind != static_cast<FaultKind>(i)) return false;
  }
  return kFacts.back().kind == FaultKind::kAuthExpired;
}
static_assert(facts_are_in_order());

bool matches(const Fault& fault, const CallFacts& call) {
  if (!fault.method.empty() && fault.method != call.method) return false;
  return !fault.partition || *fault.partition == call.partition;
}

bool drawn(double probability, Random& random) {
  if (probability >= 1) return true;
  constexpr double kScale = 1.0 / 9007199254740992.0;  // 2^-53: a double's digits
  return static_cast<double>(random.next_u64() >> 11U) * kScale < probability;
}

}  // namespace

std::span<const FaultFacts> all_faults() noexcept { return kFacts; }

const FaultFacts& facts_of(FaultKind kind) noexcept {
  return kFacts.at(static_cast<std::size_t>(kind));
}

Result<FaultKind> find_fault(std::string_view name) {
  for (const FaultFacts& facts : kFacts) {
    if (facts.name == name) return facts.kind;
  }
  std::string known;
  for (const FaultFacts& facts : kFacts) known.append(known.empty() ? "" : " ").append(facts.name);
  Error error{.code = Errc::kInvalidArgument, .message = fmt::format("no fault '{}'", name)};
  error.hint = "one of: " + known;
  return fail(std::move(error));
}

Nanos Fault::delay_or_default() const noexcept {
  return delay.count() != 0 ? delay : facts_of(kind).delay_default;
}

Nanos half_flap(const Fault& fault) noexcept {
  constexpr Nanos kShortest = std::chrono::milliseconds(5);
  return std::max(fault.delay_or_default() / 2, kShortest);
}

Result<std::uint64_t> FaultSet::add(Fault fault) {
  if (faults_.size() >= kFaultsMax) {
    return fail(Errc::kResourceExhausted,
                fmt::format("{} faults are set already: clear some", kFaultsMax));
  }
  if (!(fault.probability >= 0 && fault.probability <= 1)) {
    return fail(Errc::kInvalidArgument, "probability: want 0 to 1");
  }
  if (fault.delay.count() < 0 || fault.ends <= fault.starts) {
    return fail(Errc::kInvalidArgument,
                "times of a fault: want no negative delay, and an end after the start");
  }
  fault.id = next_id_++;
  fault.begun = false;
  const std::uint64_t id = fault.id;
  faults_.emplace(id, std::move(fault));
  return id;
}

bool FaultSet::remove(std::uint64_t id) { return faults_.erase(id) != 0; }

std::size_t FaultSet::remove_if_kind(FaultKind kind) {
  return std::erase_if(faults_, [kind](const auto& entry) { return entry.second.kind == kind; });
}

std::size_t FaultSet::remove_all() {
  const std::size_t count = faults_.size();
  faults_.clear();
  return count;
}

std::vector<Fault> FaultSet::advance(Time now, Random& random) {
  std::vector<Fault> events;
  for (auto it = faults_.begin(); it != faults_.end();) {
    Fault& fault = it->second;
    bool over = fault.ends <= now;
    if (!over && !fault.begun && fault.starts <= now) {
      const FaultShape shape = facts_of(fault.kind).shape;
      if (shape == kEvent || shape == kState) over = !drawn(fault.probability, random);
      fault.begun = true;
      if (shape == kEvent) {
        if (!over) events.push_back(fault);
        over = true;
      }
    }
    it = over ? faults_.erase(it) : std::next(it);
  }
  return events;
}

Time FaultSet::next_change() const noexcept {
  Time next = kNever;
  for (const auto& [id, fault] : faults_) {
    next = std::min({next, fault.ends, fault.begun ? kNever : fault.starts});
  }
  return next;
}

const Fault* FaultSet::holds(FaultKind kind) const noexcept {
  for (const auto& [id, fault] : faults_) {
    if (fault.kind == kind && fault.begun) return &fault;
  }
  return nullptr;
}

std::optional<Fault> FaultSet::befalls(FaultKind kind, const CallFacts& call, Time now,
                                       Random& random) {
  for (auto it = faults_.begin(); it != faults_.end(); ++it) {
    Fault& fault = it->second;
    if (fault.kind != kind || fault.starts > now || fault.ends <= now || !matches(fault, call))
      continue;
    if (!drawn(fault.probability, random)) continue;
    std::optional<Fault> found = fault;
    if (fault.count && --*fault.count == 0) faults_.erase(it);
    return found;
  }
  return std::nullopt;
}

}  // namespace imex::rack
