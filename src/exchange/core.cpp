#include "core.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/result.hpp"
#include "meeting_place.hpp"
#include "memory/abort_page.hpp"
#include "os/peer.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "os/thread.hpp"

namespace imex::exchange {

namespace {

/// Of each of three sizes, when a communicator begins: some 100 us for two ranks.
constexpr std::size_t kCostSamples = 41;

#ifdef IMEX_CHECKED
constexpr bool kCheckedBuild = true;
#else
constexpr bool kCheckedBuild = false;
#endif

bool check_wanted(const CommunicatorOptions& options) {
  if (options.check) return *options.check;
  const char* text = std::getenv("IMEX_CHECK");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view wish = text == nullptr ? "" : text;
  return wish == "1" || (kCheckedBuild && wish != "0");
}

/// What each rank tells the others once.
struct RankFacts {
  Costs costs;
  os::CoreMask cores{};
  Locality locality;
  std::uint32_t quota = 1;  ///< cores that this rank may use, its control group's limit included
  std::uint32_t reserved = 0;
};
static_assert(std::is_trivially_copyable_v<RankFacts> && sizeof(RankFacts) <= kPacketBytesMax);

/// Cores that the ranks have together. A limit below what a rank's mask offers is one of a control
/// group, which the ranks are taken to share.
std::uint32_t shared_cores(const std::vector<RankFacts>& ranks) {
  os::CoreMask together{};
  std::uint32_t limit = ~std::uint32_t{0};
  const auto count = [](const os::CoreMask& mask) {
    std::uint32_t cores = 0;
    for (const std::uint64_t word : mask) cores += static_cast<std::uint32_t>(std::popcount(word));
    return cores;
  };
  for (const RankFacts& rank : ranks) {
    for (std::size_t i = 0; i != together.size(); ++i) together[i] |= rank.cores[i];
    if (rank.quota < count(rank.cores)) limit = std::min(limit, rank.quota);
  }
  return std::max(std::min(count(together), limit), 1U);
}

template <class T>
T* at(std::byte* base, std::size_t offset) {
  return reinterpret_cast<T*>(base + offset);
}

}  // namespace

Core::Core(std::shared_ptr<Connector> connector, const Identity& who,
           const CommunicatorOptions& options, const Layout& layout)
    : who_(who),
      options_(options),
      check_(check_wanted(options)),
      layout_(layout),
      connector_(std::move(connector)),
      watched_cell_(connector_->abort_cell()),
      peers_(who.ranks),
      buffers_(who.rank),
      tuning_(who.ranks, {}) {}

Core::~Core() {
  const std::uint64_t reason = window_ == nullptr ? 0 : abort_word();
  if (!lanes_.empty()) {
    // Operations that were started and not waited for: the one that runs must not outlive this.
    for (const auto& lane : lanes_) {
      if (lane->started.blocks_this_thread())
        abort_rank(header(), memory::encode_abort({.code = Errc::kAborted, .rank = who_.rank}));
    }
    lanes_.clear();
  }
  for (const std::uint64_t id : watched_) watch_->forget(id);
  if (window_ == nullptr) return;
  // Why this one ends, if it is no choice of its own: whoever sees it gone shall know the reason,
  // which may still be on its way to others.
  if (reason != 0) tell_peers([&](WindowHeader& peer) { abort_rank(peer, reason); });
  // Release: all that this rank stored for its peers comes before.
  header().departed.store(1, std::memory_order_release);
  tell_peers([](WindowHeader& peer) { wake(peer); });
}

WindowHeader& Core::header() const noexcept { return *at<WindowHeader>(window_->data(), 0); }

WindowHeader& Core::header_of(std::uint32_t rank) const noexcept {
  return rank == who_.rank ? header() : *at<WindowHeader>(peers_[rank].data, 0);
}

std::uint64_t Core::options_digest() const noexcept {
  return digest_of(
      {options_.lanes, options_.slot_bytes, static_cast<std::uint64_t>(options_.determinism),
       static_cast<std::uint64_t>(options_.algorithm), check_ ? 1U : 0U, layout_.window_bytes()});
}

Result<std::unique_ptr<Core>> Core::meet(std::shared_ptr<Connector> connector, const UniqueId& id,
                                         std::uint32_t rank, std::uint32_t ranks,
                                         const CommunicatorOptions& options,
                                         std::function<Result<void>()> go_on) {
  if (ranks == 0 || rank >= ranks) {
    return fail(Errc::kInvalidArgument, fmt::format("rank {} of {} ranks", rank, ranks));
  }
  IMEX_TRY(const auto place, MeetingPlace::join(*connector, id));
  MeetingPlace::Attendance attendance{.rank = rank,
                                      .ranks = ranks,
                                      .deadline = deadline_after(options.timeout),
                                      .go_on = std::move(go_on)};
  const Identity who{.rank = rank, .ranks = ranks, .generation = place->generation()};
  IMEX_TRY(const Layout layout, Layout::make({ranks, options.lanes, options.slot_bytes}));
  attendance.options_digest = Core(connector, who, options, layout).options_digest();
  IMEX_TRY(auto core, assemble(connector, who, options, [&](const MemoryName& name) {
             return place->attend(attendance, name);
           }));
  IMEX_CHECK_OK(place->conclude(attendance));
  {
    const std::stop_callback on_stop(options.stop, [&] { core->abort(); });
    IMEX_CHECK_OK(core->agree_on_costs(options.stop));
  }
  return core;
}

Result<std::unique_ptr<Core>> Core::assemble(std::shared_ptr<Connector> connector,
                                             const Identity& who,
                                             const CommunicatorOptions& options,
                                             const SwapNames& swap) {
  IMEX_TRY(const Layout layout, Layout::make({who.ranks, options.lanes, options.slot_bytes}));
  std::unique_ptr<Core> core(
      new Core(std::move(connector), who, options, layout));  // private constructor
  IMEX_CHECK_OK(core->make_window());
  IMEX_TRY(core->published_, core->connector_->publish(core->window_));
  IMEX_TRY(const auto names, swap(core->published_.name));
  IMEX_CHECK_OK(core->open_windows(names));
  core->make_recorder();
  core->make_lanes();
  IMEX_CHECK_OK(core->watch_peers());
  return core;
}

Result<void> Core::make_window() {
  // Prefaulted here: the pages lie near the core that will poll them.
  IMEX_TRY(auto memory, Allocation::create(layout_.window_bytes()));
  window_ = std::make_shared<Allocation>(std::move(memory));
  WindowHeader& own = *new (window_->data()) WindowHeader();
  own.magic = kWindowMagic;
  own.version = kWindowVersion;
  own.header_bytes = sizeof(WindowHeader);
  own.generation = who_.generation;
  own.rank = who_.rank;
  own.ranks = who_.ranks;
  own.options_digest = options_digest();
  own.window_bytes = layout_.window_bytes();
  own.nonce = os::SystemRandom().next_u64();
  own.self_address = reinterpret_cast<std::uint64_t>(&own.nonce);
  own.pid = os::process_id();
  if (who_.rank == 0) group_ = own.nonce;
  return {};
}

Result<void> Core::check_window(const WindowHeader& found, std::uint32_t rank) const {
  const auto differs = [&](Errc code, std::string_view what, std::uint64_t has,
                           std::uint64_t wanted) {
    return fail(code,
                fmt::format("window of rank {}: {} {} wanted, {} found", rank, what, wanted, has));
  };
  if (found.magic != kWindowMagic)
    return differs(Errc::kDataLoss, "magic", found.magic, kWindowMagic);
  if (found.version != kWindowVersion)
    return differs(Errc::kVersionMismatch, "layout version", found.version, kWindowVersion);
  if (found.generation != who_.generation)
    return differs(Errc::kStale, "generation", found.generation, who_.generation);
  if (found.rank != rank) return differs(Errc::kDataLoss, "rank", found.rank, rank);
  if (found.ranks != who_.ranks)
    return differs(Errc::kInvalidArgument, "ranks", found.ranks, who_.ranks);
  if (found.options_digest != options_digest()) {
    return differs(Errc::kInvalidArgument, "digest of options", found.options_digest,
                   options_digest());
  }
  return {};
}

Result<void> Core::open_windows(const std::vector<MemoryName>& names) {
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    if (rank == who_.rank) continue;
    auto opened = connector_->open(names[rank], layout_.window_bytes());
    if (!opened) {
      Error error =
          std::move(opened).error().context(fmt::format("map the window of rank {}", rank));
      error.rank = rank;
      return fail(std::move(error));
    }
    peers_[rank] = std::move(*opened);
    IMEX_TRY(const auto hold, begin_hold(peers_[rank]));
    IMEX_CHECK_OK(check_window(header_of(rank), rank));
    if (rank == 0) group_ = header_of(rank).nonce;
    if (peers_[rank].import != nullptr && !may_read(rank)) peers_[rank].pid = 0;  // not known
  }
  return {};
}

void link_pair(Link& link, const Layout& layout, const Pairing& pair) noexcept {
  const auto [lane, self, peer, own, other] = pair;
  link.in = at<PeerBlock>(own, layout.block(lane, self, peer));
  link.out = at<PeerBlock>(other, layout.block(lane, peer, self));
  link.packets_in = at<PacketLine>(own, layout.packets(lane, self, peer));
  link.packets_out = at<PacketLine>(other, layout.packets(lane, peer, self));
  link.mail_in = at<PacketLine>(own, layout.mailbox(lane, self, peer));
  link.mail_out = at<PacketLine>(other, layout.mailbox(lane, peer, self));
  link.ring_in = own + layout.ring(lane, self, peer);
  link.ring_out = other + layout.ring(lane, peer, self);
}

void Core::link_lane(Lane& lane, std::uint32_t number) {
  for (std::uint32_t peer = 0; peer != who_.ranks; ++peer) {
    if (peer == who_.rank) continue;
    Link& link = lane.links[peer];
    link_pair(link, layout_,
              {.lane = number,
               .self = who_.rank,
               .peer = peer,
               .own = window_->data(),
               .other = peers_[peer].data});
    link.header = at<WindowHeader>(peers_[peer].data, 0);
    link.pid = peers_[peer].local ? os::process_id() : peers_[peer].pid;
  }
}

void Core::make_recorder() {
  recorder_ = Recorder::create(recording_directory(), {.group = group_,
                                                       .generation = who_.generation,
                                                       .rank = who_.rank,
                                                       .ranks = who_.ranks,
                                                       .lanes = options_.lanes});
}

void Core::make_lanes() {
  const WaitPolicy policy = options_.wait ? *options_.wait : WaitPolicy::for_ranks(who_.ranks);
  for (std::uint32_t number = 0; number != options_.lanes; ++number) {
    auto lane = std::make_unique<Lane>(
        who_.rank, who_.ranks, Waits(header(), connector_->abort_cell(), options_.timeout, policy),
        layout_.ring_slot_bytes());
    if (recorder_ != nullptr) lane->recorder = recorder_->lane(number);
    lane->waits.set_recorder(lane->recorder);
    lane->buffers = &buffers_;
    link_lane(*lane, number);
    lanes_.push_back(std::move(lane));
  }
}

Result<void> Core::watch_peers() {
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    if (peers_[rank].pid == 0) continue;
    if (watch_ == nullptr) {
      IMEX_TRY(watch_, PeerWatch::instance());
    }
    auto id =
        watch_->watch(peers_[rank].pid, peers_[rank].start_ticks, [this, rank] { lose(rank); });
    if (!id) {
      Error error = std::move(id).error().context(fmt::format("watch rank {}", rank));
      if (error.code == Errc::kNotFound) error.code = Errc::kPeerLost;
      error.rank = rank;
      return fail(std::move(error));
    }
    watched_.push_back(*id);
  }
  return {};
}

void Core::lose(std::uint32_t rank) noexcept {
  if (has_departed(rank)) return;  // in order: no loss
  lost_[rank / 64].fetch_or(std::uint64_t{1} << rank % 64, std::memory_order_release);
  abort_rank(header(), memory::encode_abort({.code = Errc::kPeerLost, .rank = rank}));
}

bool Core::is_lost(std::uint32_t rank) const noexcept {
  // Acquire: pairs with lose(); a rank is lost once its loss has ended a wait.
  if ((lost_[rank / 64].load(std::memory_order_acquire) >> rank % 64 & 1U) != 0) return true;
  const memory::AbortCause cause = memory::decode_abort(abort_word());
  return cause.code == Errc::kPeerLost && cause.rank == rank;
}

bool Core::has_departed(std::uint32_t rank) const noexcept {
  bool departed = false;
  // Acquire: pairs with the release of ~Core.
  reach(rank, [&](const WindowHeader& peer) {
    departed = peer.departed.load(std::memory_order_acquire) != 0;
  });
  return departed;
}

std::vector<std::uint32_t> Core::lost_ranks() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    if (is_lost(rank)) ranks.push_back(rank);
  }
  return ranks;
}

void Core::abort_all(std::uint64_t word) noexcept {
  abort_rank(header(), word);
  tell_peers([&](WindowHeader& peer) { abort_rank(peer, word); });
}

Result<std::shared_ptr<StartedOperation>> Core::start(std::uint32_t lane,
                                                      std::function<Result<void>()> operation) {
  IMEX_CHECK_OK(check_lane(lane));
  return lanes_[lane]->started.start(std::move(operation));
}

Result<void> Core::no_lane(std::uint32_t lane) const {
  return fail(Errc::kInvalidArgument, fmt::format("lane {} of {} lanes", lane, lanes_.size()));
}

void Core::abort() noexcept {
  abort_all(memory::encode_abort({.code = Errc::kAborted, .rank = who_.rank}));
}

std::optional<Error> Core::async_error() const {
  const std::uint64_t word = abort_word();
  if (word == 0) return std::nullopt;
  return memory::abort_error(word);
}

std::uint64_t Core::abort_word() const noexcept {
  // Acquire: pairs with the release in memory::abort_trip(), of a peer or of the session.
  const std::uint64_t word = header().abort.word.load(std::memory_order_acquire);
  if (word != 0 || watched_cell_ == nullptr) return word;
  return watched_cell_->word.load(std::memory_order_acquire);
}

bool Core::may_read(std::uint32_t rank) const {
  if (rank == who_.rank) return true;
  const std::int32_t pid = peers_[rank].local ? os::process_id() : peers_[rank].pid;
  if (pid == 0) return false;
  bool same = false;
  reach(rank, [&](const WindowHeader& peer) {
    std::uint64_t nonce = 0;
    const auto read = os::read_peer_memory(pid, peer.self_address,
                                           reinterpret_cast<std::byte*>(&nonce), sizeof nonce);
    same = read && nonce == peer.nonce;
  });
  return same;
}

Result<void> Core::agree_on_costs(const std::stop_token& stop) {
  if (who_.ranks == 1) return {};
  std::vector<RankFacts> all(who_.ranks);
  RankFacts& own = all[who_.rank];
  own.costs.kernel_allowed = options_.single_copy;
  for (std::uint32_t rank = 0; rank != who_.ranks; ++rank) {
    own.costs.kernel_allowed &= may_read(rank);
  }
  own.cores = os::core_mask();
  own.quota = os::usable_cores();
  own.locality = own_locality();
  IMEX_CHECK_OK(all_gather(reinterpret_cast<const std::byte*>(&own),
                           reinterpret_cast<std::byte*>(all.data()), sizeof own, 0));
  const std::uint32_t cores = shared_cores(all);
  if (!options_.wait) {
    const WaitPolicy policy = WaitPolicy::for_ranks(who_.ranks, cores);
    for (const auto& lane : lanes_) lane->waits.set_policy(policy);
  }
  // The permission must hold for every pair.
  Costs costs;
  costs.kernel_allowed = true;
  for (const RankFacts& rank : all) costs.kernel_allowed &= rank.costs.kernel_allowed;
  // Where ranks share cores a measurement would be one of the scheduler.
  if (who_.ranks <= cores) {
    IMEX_TRY(costs, measure_costs(costs));
  }
  // Rank 0's figures, so that all choose alike.
  IMEX_CHECK_OK(broadcast({reinterpret_cast<std::byte*>(&costs), sizeof costs}, 0, 0));
  tuning_ = TuningTable(who_.ranks, costs);
  // What is permitted to all must be to this one, whatever another says.
  const bool may_fetch = costs.kernel_allowed && own.costs.kernel_allowed;
  for (const auto& lane : lanes_) lane->may_fetch = may_fetch;
  std::vector<Locality> localities;
  for (const RankFacts& rank : all) localities.push_back(rank.locality);
  IMEX_CHECK_OK(make_two_levels(localities));
  if (two_levels_ != nullptr) tuning_ = TuningTable(who_.ranks, costs, two_levels_->shape);
  // Whoever goes on from here may fail at once, which aborts all: no rank shall be caught by that
  // while it still has no communicator.
  IMEX_TRY(const auto ready, swap_notices(digest_of({who_.generation}), {}, Ends::kLossOnly, stop));
  static_cast<void>(ready);
  return {};
}

Result<Costs> Core::measure_costs(Costs costs) {
  Lane& lane = *lanes_[0];  // nobody else has the communicator yet
  IMEX_CHECK_OK(hold_imports(lane));
  std::vector<std::byte> data(kPacketBytesMax);
  const auto median_ns = [&](std::size_t bytes) -> Result<double> {
    const ReduceCall call{.in = data.data(),
                          .out = data.data(),
                          .elements = bytes,
                          .kernel = reduce_kernel(DataType::kUint8, ReduceOp::kMax)};
    std::array<double, kCostSamples> samples{};
    for (double& sample : samples) {
      const auto begin = std::chrono::steady_clock::now();
      if (!all_reduce_packet(lane, call)) return fail(wait_error(lane, {.bytes = bytes}));
      sample = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin)
                   .count();
    }
    std::nth_element(samples.begin(), samples.begin() + kCostSamples / 2, samples.end());
    return samples[kCostSamples / 2];
  };
  IMEX_TRY(const double warm, median_ns(kPacketBytesMax));
  static_cast<void>(warm);
  IMEX_TRY(const double small, median_ns(8));
  IMEX_TRY(const double large, median_ns(kPacketBytesMax));
  lane.holds.clear();
  return costs_from(small, large, who_.ranks, costs);
}

std::string Core::hang_report() const {
  auto recordings = read_recordings(recording_directory());
  if (!recordings) return {};
  std::erase_if(*recordings, [this](const Recording& each) { return each.group != group_; });
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return describe(*recordings, static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count()));
}

CommunicatorCounters Core::counters() const noexcept {
  CommunicatorCounters counters;
  for (const auto& lane : lanes_) {
    counters.operations += lane->counters.operations.load(std::memory_order_relaxed);
    counters.bytes += lane->counters.bytes.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i != kAlgorithmCount; ++i) {
      counters.by_algorithm[i] += lane->counters.by_algorithm[i].load(std::memory_order_relaxed);
    }
    for (std::size_t i = 0; i != counters.by_bytes.size(); ++i) {
      counters.by_bytes[i] += lane->counters.by_bytes[i].load(std::memory_order_relaxed);
      counters.by_time[i] += lane->counters.by_time[i].load(std::memory_order_relaxed);
    }
  }
  return counters;
}

}  // namespace imex::exchange
