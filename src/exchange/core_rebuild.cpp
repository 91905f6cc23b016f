// What ranks tell each other beside the lanes, and the communicators that come out of it.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "core.hpp"
#include "meeting_place.hpp"
#include "memory/abort_page.hpp"

namespace imex::exchange {

namespace {

/// How long after a rank's memory is gone its loss or an abort may take to be noticed here.
constexpr std::chrono::seconds kToldOfTheEnd{1};

}  // namespace

Result<Core::Said> Core::await_notice(std::uint32_t rank, Ends ends, const Look& look,
                                      SteadyTime deadline, const std::stop_token& stop) const {
  HostAtomics atomics;
  memory::WaitLimits<HostAtomics> limits{.deadline = deadline,
                                         .policy = WaitPolicy::for_ranks(who_.ranks)};
  limits.policy.sleep = false;  // nobody wakes for a notice
  if (ends == Ends::kLossOrAbort) {
    limits.abort = &header().abort.word;
    if (const AbortCell* watched = connector_->abort_cell()) limits.abort_also = &watched->word;
  }
  std::optional<Said> said;
  bool gone = false;
  std::uint64_t abort = 0;
  const auto end = memory::wait_spinning(atomics, limits, abort, [&] {
    gone = is_lost(rank);  // first: what it said before it went counts
    gone |= !reach(rank, [&](const WindowHeader& peer) {
      gone |= peer.departed.load(std::memory_order_acquire) != 0;
      said = look(peer);
    });
    return said || gone || stop.stop_requested();
  });
  if (said) return *said;
  if (stop.stop_requested())
    return fail(Errc::kAborted, "the caller stopped to wait for the other ranks");
  // Who is told of an abort first may be gone by now: see ~Core.
  if (abort == 0) abort = memory::load_abort(atomics, limits);
  if (abort != 0) return fail(memory::abort_error(abort));
  Error error{Errc::kPeerLost, fmt::format("rank {} is gone", rank)};
  if (end == memory::SpinEnd::kDeadline) {
    error = {Errc::kDeadlineExceeded, fmt::format("rank {} did not take part in time", rank)};
  }
  error.rank = rank;
  return fail(std::move(error));
}

Error Core::why_gone(std::uint32_t rank, Ends ends, Error found) const {
  if (found.code != Errc::kNotFound && found.code != Errc::kDataLoss) return found;
  const SteadyTime soon = std::chrono::steady_clock::now() + kToldOfTheEnd;
  const auto nothing = [](const WindowHeader&) { return std::optional<Said>(); };
  const auto said = await_notice(rank, ends, nothing, std::min(soon, wait_deadline()));
  // An abort may be for a deadline, too.
  const bool told = said.error().code != Errc::kDeadlineExceeded || abort_word() != 0;
  return told ? said.error() : found;
}

Result<std::vector<MemoryName>> Core::swap_notices(std::uint64_t digest, const MemoryName& name,
                                                   Ends ends, const std::stop_token& stop) {
  const std::uint64_t sequence = ++notices_;
  Notice& own = header().notices[sequence % 2];
  own.digest = digest;
  own.name = name;
  own.sequence.store(sequence, std::memory_order_release);  // [A]

  std::vector<MemoryName> names;
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    IMEX_TRY(const Said said, await_notice(
                                  rank, ends,
                                  [&](const WindowHeader& peer) {
                                    const Notice& notice = peer.notices[sequence % 2];
                                    std::optional<Said> found;
                                    // Acquire: pairs with [A] of the peer.
                                    if (notice.sequence.load(std::memory_order_acquire) == sequence)
                                      found = {notice.digest, notice.name};
                                    return found;
                                  },
                                  wait_deadline(), stop));
    if (said.digest != digest) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("ranks {} and {} ask for different things", who_.rank, rank),
                  "pass the same arguments in all ranks");
    }
    names.push_back(said.name);
  }
  return names;
}

Result<std::vector<MemoryName>> Core::swap_shrink_notices(std::span<const std::uint32_t> members,
                                                          Notice& own, std::uint64_t digest,
                                                          const MemoryName& name) {
  own.digest = digest;
  own.name = name;
  own.sequence.store(1, std::memory_order_release);  // [B]

  std::vector<MemoryName> names;
  for (const std::uint32_t rank : members) {
    IMEX_TRY(const Said said, await_notice(
                                  rank, Ends::kLossOnly,
                                  [&](const WindowHeader& peer) {
                                    std::optional<Said> found;
                                    // Members may have tried in vain before, and not equally often:
                                    // what is asked for decides. Acquire: pairs with [B] of the
                                    // peer.
                                    for (const Notice& notice : peer.shrinks) {
                                      if (notice.sequence.load(std::memory_order_acquire) == 1 &&
                                          notice.digest == digest)
                                        found = {notice.digest, notice.name};
                                    }
                                    return found;
                                  },
                                  wait_deadline()));
    names.push_back(said.name);
  }
  return names;
}

Result<std::unique_ptr<Core>> Core::shrink(std::span<const std::uint32_t> dead) {
  std::vector<std::uint32_t> survivors;
  std::vector<std::uint64_t> asked{who_.generation + 1};
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    if (std::find(dead.begin(), dead.end(), rank) != dead.end()) continue;
    survivors.push_back(rank);
    asked.push_back(rank);
  }
  const auto self = std::find(survivors.begin(), survivors.end(), who_.rank);
  if (self == survivors.end()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("shrink without rank {}, which is this one", who_.rank));
  }
  if (shrinks_ == kShrinksMax) {
    return fail(Errc::kResourceExhausted,
                fmt::format("shrink: tried {} times on this communicator", shrinks_),
                "create a new one");
  }
  const Identity who{.rank = static_cast<std::uint32_t>(self - survivors.begin()),
                     .ranks = static_cast<std::uint32_t>(survivors.size()),
                     .generation = who_.generation + 1};
  Notice& notice = header().shrinks[shrinks_++];
  IMEX_TRY(auto connector, connector_->another(who.rank));
  bool swapped = false;
  auto core = assemble(std::move(connector), who, options_, [&](const MemoryName& name) {
    auto names = swap_shrink_notices(survivors, notice, digest_of(asked), name);
    swapped = names.has_value();
    return names;
  });
  // Errors of what begins name ranks by their numbers there.
  const auto named_here = [&](Error error) {
    if (!swapped || error.rank >= survivors.size()) return error;
    error.rank = survivors[error.rank];
    return why_gone(error.rank, Ends::kLossOnly, std::move(error));
  };
  const Result<void> met = core ? (*core)->barrier(0) : fail(core.error());
  // After the barrier all have read it. Whoever asks for the same again shall not meet it, nor one
  // whose memory is no more.
  notice.sequence.store(0, std::memory_order_relaxed);
  if (!met) return fail(named_here(met.error()).context("shrink"));
  // Every rank hears of every other in it, and so knows that all notices are gone.
  if (auto agreed = (*core)->agree_on_costs(); !agreed)
    return fail(named_here(std::move(agreed).error()).context("shrink"));
  return core;
}

namespace {

/// What each rank says in a split.
struct SplitWish {
  std::uint32_t colored = 0;
  std::uint32_t color = 0;
  std::int64_t key = 0;
};
struct SplitWindow {
  std::uint64_t made = 0;  ///< 0: it could not be
  MemoryName name{};
};
static_assert(sizeof(SplitWish) <= kPacketBytesMax && sizeof(SplitWindow) <= kPacketBytesMax);

template <class T>
Result<std::vector<T>> gather(Core& core, const T& own) {
  std::vector<T> all(core.identity().ranks);
  IMEX_CHECK_OK(core.all_gather(reinterpret_cast<const std::byte*>(&own),
                                reinterpret_cast<std::byte*>(all.data()), sizeof own, 0));
  return all;
}

/// Ranks of this color, in their new order.
std::vector<std::uint32_t> members_of(std::uint32_t color, const std::vector<SplitWish>& wishes) {
  std::vector<std::uint32_t> members;
  for (std::uint32_t rank = 0; rank != wishes.size(); ++rank) {
    if (wishes[rank].colored != 0 && wishes[rank].color == color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {}, [&](std::uint32_t rank) { return wishes[rank].key; });
  return members;
}

}  // namespace

Result<std::unique_ptr<Core>> Core::split(std::optional<std::uint32_t> color, std::int64_t key) {
  IMEX_TRY(const auto wishes, gather<SplitWish>(*this, {color ? 1U : 0U, color.value_or(0), key}));
  if (!color) {
    IMEX_TRY(const auto windows, gather<SplitWindow>(*this, {}));
    return nullptr;
  }
  const std::vector<std::uint32_t> members = members_of(*color, wishes);
  const auto self = std::find(members.begin(), members.end(), who_.rank);
  const Identity who{.rank = static_cast<std::uint32_t>(self - members.begin()),
                     .ranks = static_cast<std::uint32_t>(members.size()),
                     .generation = who_.generation + 1};
  bool told = false, swapped = false;
  const auto swap = [&](const MemoryName& name) -> Result<std::vector<MemoryName>> {
    told = true;
    IMEX_TRY(const auto windows, gather<SplitWindow>(*this, {1, name}));
    std::vector<MemoryName> names;
    for (const std::uint32_t rank : members) {
      if (windows[rank].made == 0) {
        return fail(Errc::kResourceExhausted, fmt::format("rank {} has no memory for it", rank));
      }
      names.push_back(windows[rank].name);
    }
    swapped = true;
    return names;
  };
  // Errors of what begins name ranks by their numbers there.
  const auto named_here = [&](Error error) {
    if (!swapped || error.rank >= members.size()) return error;
    error.rank = members[error.rank];
    return why_gone(error.rank, Ends::kLossOrAbort, std::move(error));
  };
  auto connector = connector_->another(who.rank);
  auto core = connector ? assemble(std::move(*connector), who, options_, swap)
                        : Result<std::unique_ptr<Core>>(fail(std::move(connector).error()));
  if (!core) {
    if (!told) {  // the others wait to hear of this rank's window
      IMEX_TRY(const auto windows, gather<SplitWindow>(*this, {}));
    }
    return fail(named_here(std::move(core).error()).context("split"));
  }
  if (auto agreed = (*core)->agree_on_costs(); !agreed)
    return fail(named_here(std::move(agreed).error()).context("split"));
  return core;
}

Result<std::shared_ptr<MeetingPlace>> Core::next_meeting() const {
  return MeetingPlace::create(*connector_, who_.generation + 1);
}

Result<std::unique_ptr<Core>> Core::grow(const UniqueId& id, std::uint32_t ranks) {
  if (ranks <= who_.ranks) {
    return fail(Errc::kInvalidArgument,
                fmt::format("grow from {} to {} ranks: more are wanted", who_.ranks, ranks));
  }
  IMEX_TRY(auto connector, connector_->another(who_.rank));
  CommunicatorOptions options = options_;
  options.stop = {};  // create()'s
  auto core = meet(std::move(connector), id, who_.rank, ranks, options, [this]() -> Result<void> {
    if (auto ended = async_error()) return fail(std::move(*ended));
    return {};
  });
  if (!core) return fail(std::move(core).error().context("grow"));
  return core;
}

}  // namespace imex::exchange
