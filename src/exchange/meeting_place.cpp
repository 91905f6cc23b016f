#include "meeting_place.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/result.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"

namespace imex::exchange {

namespace {

/// How often who waits looks whether those that came still live.
constexpr auto kLookInterval = std::chrono::milliseconds(20);
/// With more ranks than cores the looks must leave time to those who have not come yet.
constexpr std::uint32_t kFewRanks = 16;
constexpr auto kRareInterval = std::chrono::milliseconds(50);
/// The same where the memory may be withdrawn: a hold lasts 50 ms at least, and a loaded machine
/// may take most of that before it lets this rank run again.
constexpr auto kHeldInterval = std::chrono::milliseconds(5);
constexpr std::uint64_t kBoardMagic = 0x3144'5242'5845'4d49ULL;  // "IMEXBRD1" in memory

}  // namespace

/// All-zero bytes are a fresh board, but for the first words, which its maker sets before it
/// gives out the id.
struct MeetingPlace::Board {
  std::uint64_t magic;
  std::uint64_t generation;           ///< of the communicator that begins here
  std::atomic<std::uint32_t> lost;    ///< one more than a rank that came and died; 0: none
  alignas(128) SignalCell arrived;    ///< counts ranks whose slot is filled
  alignas(128) SignalCell concluded;  ///< counts ranks that have mapped all others
  struct alignas(128) Slot {
    std::atomic<std::uint32_t> taken;   ///< by compare-and-swap: two ranks of one number
    std::atomic<std::uint32_t> filled;  ///< release: all below is written
    std::uint32_t ranks;
    std::int32_t pid;
    std::uint64_t start_ticks;
    std::uint64_t options_digest;
    MemoryName name;
  };
  Slot slots[kRanksMax];

  [[nodiscard]] static bool lives(const Slot& slot) {
    const auto ticks = os::process_start_ticks(slot.pid);
    return ticks ? *ticks == slot.start_ticks : ticks.error().code != Errc::kNotFound;
  }
};

MeetingPlace::MeetingPlace(Publication own, PeerMemory memory, const UniqueId& id,
                           std::uint64_t generation)
    : own_(std::move(own)), memory_(std::move(memory)), id_(id), generation_(generation) {}

MeetingPlace::Board& MeetingPlace::board() const noexcept {
  return *reinterpret_cast<Board*>(memory_.data);
}

Result<std::shared_ptr<MeetingPlace>> MeetingPlace::create(Connector& connector,
                                                           std::uint64_t generation) {
  IMEX_TRY(auto made, Allocation::create(sizeof(Board), {.pages = Pages::kSmall}));
  const auto memory = std::make_shared<Allocation>(std::move(made));
  IMEX_TRY(auto published, connector.publish(memory));
  UniqueId id;
  std::memcpy(id.bytes.data(), published.name.bytes.data(), published.name.bytes.size());
  IMEX_TRY(auto opened, connector.open(published.name, sizeof(Board)));
  std::shared_ptr<MeetingPlace> place(
      new MeetingPlace(std::move(published), std::move(opened), id, generation));
  place->board().generation = generation;
  place->board().magic = kBoardMagic;
  return place;
}

Result<std::shared_ptr<MeetingPlace>> MeetingPlace::join(Connector& connector, const UniqueId& id) {
  MemoryName name;
  std::memcpy(name.bytes.data(), id.bytes.data(), name.bytes.size());
  auto memory = connector.open(name, sizeof(Board));
  if (!memory) return fail(std::move(memory).error().context("join the other ranks"));
  IMEX_TRY(const auto hold, begin_hold(*memory));
  const auto& board = *reinterpret_cast<const Board*>(memory->data);
  if (board.magic != kBoardMagic) {
    return fail(Errc::kDataLoss, "join the other ranks: their meeting place is damaged");
  }
  return std::shared_ptr<MeetingPlace>(
      new MeetingPlace({}, std::move(*memory), id, board.generation));
}

Result<WaitResult> MeetingPlace::await_all(SignalCell Board::* cell, const Attendance& who) const {
  for (;;) {
    IMEX_TRY(const auto hold, begin_hold(memory_));
    const auto interval = memory_.import != nullptr ? kHeldInterval
                          : who.ranks <= kFewRanks  ? kLookInterval
                                                    : kRareInterval;
    const SteadyTime slice = std::chrono::steady_clock::now() + interval;
    const WaitResult waited =
        Signal(board().*cell)
            .wait_until(who.ranks, {.deadline = std::min(slice, who.deadline),
                                    .policy = WaitPolicy::for_ranks(who.ranks)});
    if (waited.ok() || std::chrono::steady_clock::now() >= who.deadline) return waited;
    IMEX_CHECK_OK(check_alive(who));
    if (who.go_on) IMEX_CHECK_OK(who.go_on());
  }
}

Result<void> MeetingPlace::check_alive(const Attendance& who) const {
  if (memory_.import != nullptr) return {};  // ranks need not see each other's processes
  std::uint32_t lost = board().lost.load(std::memory_order_relaxed);
  if (lost == 0) {
    const std::uint32_t watched = next_arrived(who);
    if (Board::lives(board().slots[watched])) return {};
    lost = watched + 1;
    board().lost.store(lost, std::memory_order_relaxed);
  }
  Error error{Errc::kPeerLost, fmt::format("rank {} ended before all ranks had met", lost - 1)};
  error.rank = lost - 1;
  return fail(std::move(error));
}

std::uint32_t MeetingPlace::next_arrived(const Attendance& who) const {
  std::uint32_t rank = who.rank;
  do {
    rank = (rank + 1) % who.ranks;
  } while (board().slots[rank].filled.load(std::memory_order_acquire) == 0);
  return rank;  // the own one, if it is alone
}

Result<void> MeetingPlace::take_slot(const Attendance& who, const MemoryName& name) {
  IMEX_TRY(const std::uint64_t start_ticks, os::process_start_ticks(os::process_id()));
  IMEX_TRY(const auto hold, begin_hold(memory_));
  Board::Slot& mine = board().slots[who.rank];
  std::uint32_t free = 0;
  if (!mine.taken.compare_exchange_strong(free, 1, std::memory_order_relaxed)) {
    return fail(Errc::kAlreadyExists, fmt::format("rank {} has joined already", who.rank),
                "give each rank its own number, and each communicator its own rendezvous");
  }
  mine.start_ticks = start_ticks;
  mine.pid = os::process_id();
  mine.ranks = who.ranks;
  mine.options_digest = who.options_digest;
  mine.name = name;
  mine.filled.store(1, std::memory_order_release);
  Signal(board().arrived).notify();
  return {};
}

Result<std::vector<MemoryName>> MeetingPlace::read_slots(const Attendance& who) const {
  IMEX_TRY(const auto hold, begin_hold(memory_));
  std::vector<MemoryName> names(who.ranks);
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank != who.ranks; ++rank) {
    const Board::Slot& slot = board().slots[rank];
    if (slot.filled.load(std::memory_order_acquire) == 0) {
      missing.push_back(rank);
      continue;
    }
    names[rank] = slot.name;
    if (slot.ranks != who.ranks || slot.options_digest != who.options_digest) {
      return fail(
          Errc::kInvalidArgument,
          fmt::format("rank {} wants {} ranks, rank {} wants {}{}", who.rank, who.ranks, rank,
                      slot.ranks, slot.ranks == who.ranks ? ", with other options" : ""));
    }
  }
  if (missing.empty()) return names;
  return fail(Errc::kDeadlineExceeded,
              fmt::format("{} of {} ranks did not come in time: {}", missing.size(), who.ranks,
                          fmt::join(missing, ", ")));
}

Result<std::vector<MemoryName>> MeetingPlace::attend(const Attendance& who,
                                                     const MemoryName& name) {
  IMEX_CHECK_OK(take_slot(who, name));
  IMEX_TRY(const WaitResult waited, await_all(&Board::arrived, who));
  static_cast<void>(waited);  // the slots say who is missing
  return read_slots(who);
}

Result<void> MeetingPlace::conclude(const Attendance& who) {
  {
    IMEX_TRY(const auto hold, begin_hold(memory_));
    Signal(board().concluded).notify();
  }
  IMEX_TRY(const WaitResult waited, await_all(&Board::concluded, who));
  if (waited.ok()) return {};
  return fail(Errc::kDeadlineExceeded,
              fmt::format("{} of {} ranks could not map the others in time",
                          who.ranks - waited.seen, who.ranks));
}

}  // namespace imex::exchange

namespace imex {

namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

std::string UniqueId::to_hex() const {
  std::string text;
  for (const std::byte byte : bytes) {
    const auto value = std::to_integer<unsigned>(byte);
    text += kHexDigits[value >> 4U];
    text += kHexDigits[value & 15U];
  }
  return text;
}

Result<UniqueId> UniqueId::from_hex(std::string_view text) {
  UniqueId id;
  if (text.size() != 2 * id.bytes.size()) {
    return fail(
        Errc::kInvalidArgument,
        fmt::format("unique id of {} characters: 256 hexadecimal digits wanted", text.size()));
  }
  for (std::size_t i = 0; i != text.size(); ++i) {
    const char lower = text[i] >= 'A' && text[i] <= 'F' ? static_cast<char>(text[i] + 32) : text[i];
    const std::size_t digit = kHexDigits.find(lower);
    if (digit == std::string_view::npos) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("unique id: character {} is no hexadecimal digit", i + 1));
    }
    id.bytes[i / 2] = id.bytes[i / 2] << 4U | static_cast<std::byte>(digit);
  }
  return id;
}

Rendezvous::Rendezvous(std::shared_ptr<exchange::MeetingPlace> place) noexcept
    : place_(std::move(place)) {}
Rendezvous::Rendezvous(Rendezvous&&) noexcept = default;
Rendezvous& Rendezvous::operator=(Rendezvous&&) noexcept = default;
Rendezvous::~Rendezvous() = default;

const UniqueId& Rendezvous::id() const noexcept { return place_->id(); }

Result<Rendezvous> Rendezvous::create() {
  IMEX_TRY(auto place, exchange::MeetingPlace::create(*exchange::direct_connector()));
  return Rendezvous(std::move(place));
}

Result<Rendezvous> Rendezvous::create(const Session& session) {
  IMEX_TRY(const auto connector, exchange::session_connector(session, kNoRank));
  IMEX_TRY(auto place, exchange::MeetingPlace::create(*connector));
  return Rendezvous(std::move(place));
}

}  // namespace imex
