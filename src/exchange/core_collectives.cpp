// The operations: arguments, the turn on a lane, checked mode, errors.

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "core.hpp"
#include "memory/abort_page.hpp"

namespace imex::exchange {

namespace {

const std::byte* bytes_at(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytes_at(void* data) { return static_cast<std::byte*>(data); }

/// No byte in common.
bool apart(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x + a_bytes <= y || y + b_bytes <= x;
}
bool apart_or_same(const std::byte* a, const std::byte* b, std::size_t bytes) {
  return a == b || apart(a, bytes, b, bytes);
}

/// Of all parts together: half the address space.
constexpr std::size_t kBytesMax = std::numeric_limits<std::size_t>::max() / 2;

Result<void> check_vectors(const Core::Vectors& v, std::size_t parts) {
  const std::size_t size = element_bytes(v.type);
  if (size == 0 || static_cast<std::uint32_t>(v.op) >= kReduceOpCount) {
    return fail(Errc::kInvalidArgument,
                fmt::format("type {} and operation {}: no such numbers",
                            static_cast<unsigned>(v.type), static_cast<unsigned>(v.op)));
  }
  // Multiplied: two divisions would be a tenth of a short exchange.
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(v.count, size * parts, &bytes) || bytes > kBytesMax) [[unlikely]] {
    return fail(Errc::kInvalidArgument, fmt::format("{} elements of {} bytes", v.count, size));
  }
  if (v.count != 0 && v.in == nullptr) {
    return fail(Errc::kInvalidArgument, fmt::format("{} elements at no address", v.count));
  }
  return {};
}

constexpr std::uint64_t kTimedOneIn = 16;

/// Of a histogram by binary digits; what is too large counts in the last.
std::size_t bucket_of(std::uint64_t value) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(value)),
                               CommunicatorCounters{}.by_bytes.size() - 1);
}

/// What a communicator of one rank has to do.
void reduce_alone(const ReduceCall& call) {
  call.kernel({.sources = &call.in,
               .source_count = 1,
               .targets = &call.out,
               .target_count = 1,
               .elements = call.elements});
}

ReduceCall reduce_call(const Core::Vectors& v) {
  return {.in = bytes_at(v.in),
          .out = bytes_at(v.out),
          .elements = v.count,
          .element_bytes = element_bytes(v.type),
          .kernel = reduce_kernel(v.type, v.op)};
}

Result<void> check_signal(std::uint32_t signal) {
  if (signal < kSignals) [[likely]]
    return {};
  return fail(Errc::kInvalidArgument,
              fmt::format("signal {}: 0 to {} wanted", signal, kSignals - 1));
}

tl::unexpected<Error> overlap(std::size_t bytes) {
  return fail(Errc::kInvalidArgument,
              fmt::format("input and output of {} bytes overlap in part", bytes),
              "pass the same range for both, or separate ones");
}

}  // namespace

/// Holds a lane for one operation.
class Core::Turn {
 public:
  static Result<Turn> take(Core& core, std::uint32_t number, const CallFacts& call) {
    IMEX_CHECK_OK(core.check_lane(number));
    Lane& lane = *core.lanes_[number];
    if (lane.started.blocks_this_thread()) {
      return fail(Errc::kFailedPrecondition,
                  fmt::format("lane {} has operations that were started and not finished", number),
                  "wait for them first");
    }
    // Acquire: pairs with the release of the thread that had the lane before.
    if (lane.busy.exchange(1, std::memory_order_acquire) != 0) {
      return fail(Errc::kFailedPrecondition,
                  fmt::format("lane {} is busy with another operation", number),
                  "use one lane per thread");
    }
    Turn turn(lane);
    if (const std::uint64_t word = core.abort_word(); word != 0) [[unlikely]]
      return fail(memory::abort_error(word).context(call.to_string()));
    if (core.watched_cell_ != nullptr) IMEX_CHECK_OK(core.hold_imports(lane));
    lane.recorder.begin(call.packed(), call.bytes);
    const bool timed = lane.turns++ % kTimedOneIn == 0;
    lane.timed_since = timed ? std::chrono::steady_clock::now() : Lane::kNotTimed;
    if (core.check_ && call.collective()) {
      if (auto same = core.compare_calls(lane, call); !same) {
        lane.recorder.end(Algorithm::kAuto, same.error().code);
        return fail(std::move(same).error());
      }
    }
    return turn;
  }
  Turn(Turn&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (lane_ == nullptr) return;
    lane_->holds.clear();
    lane_->busy.store(0, std::memory_order_release);
  }
  [[nodiscard]] Lane& lane() const noexcept { return *lane_; }

 private:
  explicit Turn(Lane& lane) noexcept : lane_(&lane) {}
  Lane* lane_;
};

Result<void> Core::compare_calls(Lane& lane, const CallFacts& call) {
  const std::uint64_t number = ++lane.calls;
  const std::array<std::uint64_t, 2> words{call.packed(), call.bytes};
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const Link& link = lane.links[lane.peer(i)];
    std::copy(words.begin(), words.end(), link.out->call_words[number % 2]);
    memory::slot_publish(lane.atomics, link.out->call, number);
    wake(*link.header);
  }
  for (std::uint32_t i = 0; i + 1 < lane.ranks; ++i) {
    const std::uint32_t peer = lane.peer(i);
    const Link& link = lane.links[peer];
    const bool came = lane.waits.until(*link.header, [&] {
      return memory::slot_poll(lane.atomics, link.in->call, number) != memory::SlotState::kEarly;
    });
    if (!came) return fail(wait_error(lane, call));
    const std::uint64_t* theirs = link.in->call_words[number % 2];
    if (theirs[0] == words[0] && theirs[1] == words[1]) continue;
    return fail(
        Errc::kInvalidArgument,
        fmt::format("call {} of this lane: rank {} calls {}, rank {} calls {}", number, who_.rank,
                    call.to_string(), peer, CallFacts::unpacked(theirs[0], theirs[1]).to_string()),
        "all ranks make the same calls in the same order");
  }
  return {};
}

Result<void> Core::hold_imports(Lane& lane) const {
  const auto hold = [&](const std::vector<PeerMemory>& peers) -> Result<void> {
    for (const PeerMemory& peer : peers) {
      IMEX_TRY(auto held, begin_hold(peer));
      if (held) lane.holds.push_back(std::move(*held));
    }
    return {};
  };
  IMEX_CHECK_OK(hold(peers_));
  for (const Buffer& buffer : buffers_.all()) IMEX_CHECK_OK(hold(buffer.peers));
  if (two_levels_ != nullptr) return hold(two_levels_->peers);
  return {};
}

Error Core::wait_error(const Lane& caller, const CallFacts& call) {
  const Lane& lane = caller.failed();
  Error error;
  error.rank = lane.waits.awaited();
  if (lane.waits.end() == WaitEnd::kAborted) {
    // Also told on by who was told: a peer may still be about to fetch what this rank has offered,
    // and must not take it for good once this rank has gone on.
    abort_all(lane.waits.abort_word());
    return memory::abort_error(lane.waits.abort_word()).context(call.to_string());
  }
  if (lane.overrun) {
    error.code = Errc::kFailedPrecondition;
    error.message = "the ranks are not in the same call";
    error.hint = "set IMEX_CHECK=1 to see which calls differ";
    error.rank = kNoRank;
  } else if (lane.unreachable != kNoRank) {
    const bool lost = lane.unreachable_code == Errc::kPeerLost;
    error.code = lost ? Errc::kPeerLost : Errc::kFailedPrecondition;
    error.message = fmt::format("memory of rank {} cannot be read", lane.unreachable);
    error.rank = lost ? lane.unreachable : kNoRank;
  } else if (lane.waits.end() == WaitEnd::kDeparted) {
    error.code = Errc::kPeerLost;
    error.message = fmt::format("rank {} has ended its communicator", error.rank);
  } else {
    error.code = Errc::kDeadlineExceeded;
    error.message =
        fmt::format("rank {} did not come within {} ms", error.rank, options_.timeout.count());
    error.hint = hang_report();
  }
  // The others wait for this rank, which does not go on: they shall know why.
  abort_all(memory::encode_abort({.code = error.code, .rank = error.rank}));
  return std::move(error).context(call.to_string());
}

Result<void> Core::finish(Lane& lane, const CallFacts& call, Algorithm algorithm, bool done) {
  if (!done) [[unlikely]] {
    Error error = wait_error(lane, call);
    lane.recorder.end(algorithm, error.code);
    return fail(std::move(error));
  }
  lane.recorder.end(algorithm, Errc::kOk);
  const auto add = [](std::atomic<std::uint64_t>& counter, std::uint64_t count) {
    // One writer: no read-modify-write, which would cost a short exchange a tenth of its time.
    counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  };
  add(lane.counters.operations, 1);
  add(lane.counters.bytes, call.bytes);
  add(lane.counters.by_algorithm[static_cast<std::size_t>(algorithm)], 1);
  add(lane.counters.by_bytes[bucket_of(call.bytes)], 1);
  if (lane.timed_since != Lane::kNotTimed) {
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - lane.timed_since;
    add(lane.counters.by_time[bucket_of(static_cast<std::uint64_t>(took.count()))], 1);
  }
  return {};
}

Result<void> Core::all_reduce(const Vectors& v, std::uint32_t number) {
  IMEX_CHECK_OK(check_vectors(v, 1));
  const ReduceCall call = reduce_call(v);
  const std::size_t bytes = call.bytes();
  if (bytes != 0 && v.out == nullptr) return fail(Errc::kInvalidArgument, "all_reduce to nowhere");
  if (!apart_or_same(call.in, call.out, bytes)) return overlap(bytes);
  const Place in = buffers_.find(v.in, bytes);
  const Place out = v.in == v.out ? in : buffers_.find(v.out, bytes);
  const CallFacts facts{.kind = CallFacts::Kind::kAllReduce,
                        .bytes = bytes,
                        .type = v.type,
                        .op = v.op,
                        .registered = in.buffer != nullptr && out.buffer != nullptr};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  if (bytes == 0) return finish(turn.lane(), facts, Algorithm::kAuto, true);
  if (who_.ranks == 1) {
    reduce_alone(call);
    return finish(turn.lane(), facts, Algorithm::kAuto, true);
  }
  const auto run = [&](Algorithm algorithm) {
    return run_all_reduce(turn.lane(), algorithm, call, in, out);
  };
  const Kind kind = kind_of(facts.registered, v.op);
  if (!can(options_.algorithm, bytes, kind)) {
    Trial& trial = turn.lane().trials[kind.index()][TuningTable::step_of(bytes)];
    if (!trial.decided()) [[unlikely]]
      return try_all_reduce(turn.lane(), trial, facts, kind, run);
    return finish(turn.lane(), facts, trial.choice(), run(trial.choice()));
  }
  return finish(turn.lane(), facts, options_.algorithm, run(options_.algorithm));
}

Result<void> Core::reduce_scatter(const Vectors& v, std::uint32_t number) {
  IMEX_CHECK_OK(check_vectors(v, who_.ranks));
  ReduceCall call = reduce_call(v);
  call.part_stride = call.bytes();
  const std::size_t bytes = call.bytes();
  if (bytes != 0 && v.out == nullptr)
    return fail(Errc::kInvalidArgument, "reduce_scatter to nowhere");
  if (call.out != call.part(who_.rank) && !apart(call.in, bytes * who_.ranks, call.out, bytes))
    return overlap(bytes);
  const CallFacts facts{
      .kind = CallFacts::Kind::kReduceScatter, .bytes = bytes, .type = v.type, .op = v.op};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  if (bytes == 0) return finish(turn.lane(), facts, Algorithm::kAuto, true);
  if (who_.ranks == 1) {
    reduce_alone(call);
    return finish(turn.lane(), facts, Algorithm::kAuto, true);
  }
  const bool small = bytes <= kPacketBytesMax;
  return finish(turn.lane(), facts, small ? Algorithm::kPacket : Algorithm::kRing,
                small ? all_reduce_packet(turn.lane(), call) : all_reduce_ring(turn.lane(), call));
}

Result<void> Core::reduce(const Vectors& v, std::uint32_t root, std::uint32_t number) {
  IMEX_CHECK_OK(check_vectors(v, 1));
  if (root >= who_.ranks) {
    return fail(Errc::kInvalidArgument, fmt::format("root {} of {} ranks", root, who_.ranks));
  }
  const ReduceCall call = reduce_call(v);
  if (who_.rank == root) {
    if (call.bytes() != 0 && v.out == nullptr)
      return fail(Errc::kInvalidArgument, "reduce to nowhere");
    if (!apart_or_same(call.in, call.out, call.bytes())) return overlap(call.bytes());
  }
  const CallFacts facts{.kind = CallFacts::Kind::kReduce,
                        .bytes = call.bytes(),
                        .type = v.type,
                        .op = v.op,
                        .root = root};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  if (who_.ranks == 1 && v.count != 0) {
    reduce_alone(call);
    return finish(turn.lane(), facts, Algorithm::kAuto, true);
  }
  return finish(turn.lane(), facts, Algorithm::kRing, reduce_to(turn.lane(), root, call));
}

Result<void> Core::broadcast(std::span<std::byte> data, std::uint32_t root, std::uint32_t number) {
  if (root >= who_.ranks) {
    return fail(Errc::kInvalidArgument, fmt::format("root {} of {} ranks", root, who_.ranks));
  }
  const CallFacts facts{.kind = CallFacts::Kind::kBroadcast, .bytes = data.size(), .root = root};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  const bool done = who_.ranks == 1 || broadcast_from(turn.lane(), root, data);
  return finish(turn.lane(), facts, Algorithm::kRing, done);
}

Result<void> Core::swap_equal_parts(Lane& lane, const CallFacts& facts, const Parts& parts) {
  const bool small = facts.bytes <= kPacketBytesMax;
  return finish(lane, facts, small ? Algorithm::kPacket : Algorithm::kRing,
                small ? swap_small_parts(lane, parts, facts.bytes) : swap_parts(lane, parts));
}

Result<void> Core::all_gather(const std::byte* in, std::byte* out, std::size_t bytes,
                              std::uint32_t number) {
  std::byte* const own = out + who_.rank * bytes;
  if (own != in && !apart(in, bytes, out, bytes * who_.ranks)) return overlap(bytes);
  const CallFacts facts{.kind = CallFacts::Kind::kAllGather, .bytes = bytes};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  if (own != in && bytes != 0) std::memcpy(own, in, bytes);
  Lane& lane = turn.lane();
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    lane.sends[rank] = {in, bytes};
    lane.receives[rank] = {out + rank * bytes, bytes};
  }
  return swap_equal_parts(lane, facts, {.sends = lane.sends, .receives = lane.receives});
}

Result<void> Core::all_to_all(const std::byte* in, std::byte* out, std::size_t bytes,
                              std::uint32_t number) {
  if (!apart(in, bytes * who_.ranks, out, bytes * who_.ranks)) return overlap(bytes);
  const CallFacts facts{.kind = CallFacts::Kind::kAllToAll, .bytes = bytes};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  const std::size_t own = who_.rank * bytes;
  if (bytes != 0) std::memcpy(out + own, in + own, bytes);
  Lane& lane = turn.lane();
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    lane.sends[rank] = {in + rank * bytes, bytes};
    lane.receives[rank] = {out + rank * bytes, bytes};
  }
  return swap_equal_parts(lane, facts, {.sends = lane.sends, .receives = lane.receives});
}

Result<void> Core::all_to_all_v(const Parts& parts, std::uint32_t number) {
  if (parts.sends.size() != who_.ranks || parts.receives.size() != who_.ranks) {
    return fail(Errc::kInvalidArgument,
                fmt::format("all_to_all_v with {} parts to send and {} to receive: {} wanted",
                            parts.sends.size(), parts.receives.size(), who_.ranks));
  }
  const auto own_in = parts.sends[who_.rank];
  const auto own_out = parts.receives[who_.rank];
  if (own_in.size() != own_out.size()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("all_to_all_v: {} bytes to itself, {} from itself", own_in.size(),
                            own_out.size()));
  }
  // Sizes differ between ranks: what is compared is the operation.
  const CallFacts facts{.kind = CallFacts::Kind::kAllToAllV};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  if (!own_in.empty() && own_in.data() != own_out.data())
    std::memmove(own_out.data(), own_in.data(), own_in.size());
  return finish(turn.lane(), facts, Algorithm::kRing, swap_parts(turn.lane(), parts));
}

Result<void> Core::no_peer(std::uint32_t peer, std::string_view what) const {
  return fail(Errc::kInvalidArgument,
              fmt::format("rank {} of {} {} rank {}", who_.rank, who_.ranks, what, peer));
}

Result<void> Core::send(std::span<const std::byte> data, std::uint32_t peer, std::uint32_t number) {
  IMEX_CHECK_OK(check_peer(peer, "sends to"));
  const CallFacts facts{.kind = CallFacts::Kind::kSend, .bytes = data.size(), .root = peer};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  return finish(turn.lane(), facts, Algorithm::kRing, send_message(turn.lane(), peer, data));
}

Result<void> Core::receive(std::span<std::byte> data, std::uint32_t peer, std::uint32_t number) {
  IMEX_CHECK_OK(check_peer(peer, "receives from"));
  const CallFacts facts{.kind = CallFacts::Kind::kReceive, .bytes = data.size(), .root = peer};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  return finish(turn.lane(), facts, Algorithm::kRing, receive_message(turn.lane(), peer, data));
}

Result<void> Core::send_receive(const Transfer& t, std::uint32_t number) {
  IMEX_CHECK_OK(check_peer(t.to, "sends to"));
  IMEX_CHECK_OK(check_peer(t.from, "receives from"));
  if (!apart(t.data.data(), t.data.size(), t.into.data(), t.into.size())) {
    return fail(Errc::kInvalidArgument,
                fmt::format("send_receive: {} bytes to send and {} bytes to receive overlap",
                            t.data.size(), t.into.size()));
  }
  const CallFacts facts{
      .kind = CallFacts::Kind::kSendReceive, .bytes = t.data.size(), .root = t.to};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  std::array<Leg, 2> legs{Leg{.peer = t.to, .send = t.data},
                          Leg{.peer = t.from, .receive = t.into}};
  if (t.to == t.from) legs[0].receive = t.into;
  const bool done = swap(turn.lane(), {legs.data(), t.to == t.from ? 1U : 2U});
  return finish(turn.lane(), facts, Algorithm::kRing, done);
}

Result<void> Core::put(std::span<const std::byte> data, std::byte* target, std::uint32_t peer,
                       std::optional<std::uint32_t> signal, std::uint32_t number) {
  IMEX_CHECK_OK(check_peer(peer, "puts to"));
  IMEX_CHECK_OK(check_signal(signal.value_or(0)));
  const CallFacts facts{.kind = CallFacts::Kind::kPut, .bytes = data.size(), .root = peer};
  std::byte* place = nullptr;
  if (!data.empty()) {
    IMEX_TRY(const auto there, peer_memory({target, data.size()}, peer));
    place = there.data();
  }
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  const Link& link = turn.lane().links[peer];
  if (place != nullptr) std::memcpy(place, data.data(), data.size());
  if (signal) {
    std::atomic<std::uint64_t>& count = link.out->signals[*signal];
    // One writer. Release: pairs with the acquire in wait_signal(); the bytes come before.
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    wake(*link.header);
  }
  return finish(turn.lane(), facts, Algorithm::kRegistered, true);
}

Result<void> Core::wait_signal(std::uint32_t peer, std::uint64_t count, std::uint32_t signal,
                               std::uint32_t number) {
  IMEX_CHECK_OK(check_peer(peer, "waits for"));
  IMEX_CHECK_OK(check_signal(signal));
  const CallFacts facts{.kind = CallFacts::Kind::kWaitSignal, .root = peer};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  const Link& link = turn.lane().links[peer];
  const std::atomic<std::uint64_t>& seen = link.in->signals[signal];
  const bool came = turn.lane().waits.until(
      *link.header, [&] { return seen.load(std::memory_order_acquire) >= count; });
  return finish(turn.lane(), facts, Algorithm::kRegistered, came);
}

Result<void> Core::barrier(std::uint32_t number) {
  const CallFacts facts{.kind = CallFacts::Kind::kBarrier};
  IMEX_TRY(const Turn turn, Turn::take(*this, number, facts));
  return finish(turn.lane(), facts, Algorithm::kAuto, exchange::barrier(turn.lane()));
}

}  // namespace imex::exchange
