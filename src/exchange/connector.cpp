#include "connector.hpp"

#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "memory/imported_segment.hpp"
#include "os/peer.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "os/thread.hpp"

namespace imex::exchange {

namespace {

constexpr std::uint64_t kNameMagic = 0x314D'414E'5845'4d49ULL;   // "IMEXNAM1" in memory
constexpr std::uint64_t kBoardMagic = 0x3144'5242'5845'4d49ULL;  // "IMEXBRD1" in memory

/// What a MemoryName holds.
struct DirectName {
  std::uint64_t magic;
  std::uint64_t nonce;  ///< finds the mapping when both ranks are threads of one process
  std::uint64_t start_ticks;
  std::uint64_t inode;
  std::uint64_t mapped_bytes;
  std::int32_t pid;
  std::int32_t fd;
};
static_assert(std::is_trivially_copyable_v<DirectName> && sizeof(DirectName) == 48 &&
              sizeof(DirectName) <= sizeof(MemoryName));

/// Memory that this process has published, so that its threads share one mapping.
class LocalMemory {
 public:
  static LocalMemory& instance() {
    static LocalMemory memory;
    return memory;
  }
  void add(std::uint64_t nonce, const std::shared_ptr<memory::HostAllocation>& memory) {
    const MutexLock lock(mutex_);
    std::erase_if(entries_, [](const auto& entry) { return entry.second.expired(); });
    entries_[nonce] = memory;
  }
  std::shared_ptr<memory::HostAllocation> find(std::uint64_t nonce) {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(nonce);
    return found == entries_.end() ? nullptr : found->second.lock();
  }

 private:
  Mutex mutex_;
  std::map<std::uint64_t, std::weak_ptr<memory::HostAllocation>> entries_ IMEX_GUARDED_BY(mutex_);
};

Result<PeerMemory> map_from(const DirectName& name) {
  IMEX_TRY(const std::uint64_t start_ticks, os::process_start_ticks(name.pid));
  if (start_ticks != name.start_ticks) {
    return fail(Errc::kNotFound,
                fmt::format("process {} is not the one that published the memory", name.pid));
  }
  IMEX_TRY(const auto fd, os::open_peer_fd(name.pid, name.fd));
  IMEX_TRY(const auto facts, os::file_facts(fd.get()));
  if (facts.inode != name.inode) {
    return fail(Errc::kDataLoss,
                fmt::format("descriptor {} of process {} is another file now", name.fd, name.pid));
  }
  IMEX_CHECK_OK(memory::check_sealed(fd.get(), name.mapped_bytes, "memory of a rank"));
  IMEX_TRY(auto mapping, os::Mapping::map(fd.get(), name.mapped_bytes, {.populate = true}));
  PeerMemory memory{.data = mapping.data(),
                    .size = mapping.size(),
                    .owner = nullptr,
                    .pid = name.pid,
                    .start_ticks = name.start_ticks};
  memory.owner = std::make_shared<os::Mapping>(std::move(mapping));
  return memory;
}

}  // namespace

Result<MemoryName> publish_memory(const std::shared_ptr<memory::HostAllocation>& memory) {
  const int fd = memory->fds().data;
  IMEX_TRY(const auto facts, os::file_facts(fd));
  const std::int32_t pid = os::process_id();
  IMEX_TRY(const std::uint64_t start_ticks, os::process_start_ticks(pid));
  const DirectName direct{.magic = kNameMagic,
                          .nonce = os::SystemRandom().next_u64(),
                          .start_ticks = start_ticks,
                          .inode = facts.inode,
                          .mapped_bytes = memory->mapped_bytes(),
                          .pid = pid,
                          .fd = fd};
  LocalMemory::instance().add(direct.nonce, memory);
  MemoryName name;
  std::memcpy(name.bytes.data(), &direct, sizeof direct);
  return name;
}

Result<PeerMemory> open_memory(const MemoryName& name, std::size_t size_bytes) {
  DirectName direct;
  std::memcpy(&direct, name.bytes.data(), sizeof direct);
  if (direct.magic != kNameMagic) {
    return fail(Errc::kInvalidArgument, "open memory of a rank: these bytes are no name");
  }
  if (direct.mapped_bytes < size_bytes) {
    return fail(Errc::kDataLoss, fmt::format("memory of a rank has {} bytes: {} wanted",
                                             direct.mapped_bytes, size_bytes));
  }
  if (direct.pid != os::process_id()) return map_from(direct);
  auto memory = LocalMemory::instance().find(direct.nonce);
  if (memory == nullptr) return fail(Errc::kNotFound, "memory of a rank has ended");
  return PeerMemory{.data = memory->data(), .size = memory->mapped_bytes(), .owner = memory};
}

/// All-zero bytes are a fresh board, but for `magic`, which its maker sets before it gives out the
/// id.
struct MeetingPlace::Board {
  std::uint64_t magic;
  alignas(128) SignalCell arrived;    ///< counts ranks whose slot is filled
  alignas(128) SignalCell concluded;  ///< counts ranks that have mapped all others
  struct alignas(128) Slot {
    std::atomic<std::uint32_t> taken;   ///< by compare-and-swap: two ranks of one number
    std::atomic<std::uint32_t> filled;  ///< release: all below is written
    std::uint32_t ranks;
    std::uint32_t reserved;
    std::uint64_t options_digest;
    MemoryName name;
  };
  Slot slots[kRanksMax];
};

MeetingPlace::MeetingPlace(std::shared_ptr<memory::HostAllocation> own, PeerMemory memory,
                           const UniqueId& id)
    : own_(std::move(own)), memory_(std::move(memory)), id_(id) {}

MeetingPlace::Board& MeetingPlace::board() const noexcept {
  return *reinterpret_cast<Board*>(memory_.data);
}

Result<std::shared_ptr<MeetingPlace>> MeetingPlace::create() {
  IMEX_TRY(auto memory, memory::HostAllocation::create(sizeof(Board), {.pages = Pages::kSmall}));
  IMEX_TRY(const auto name, publish_memory(memory));
  UniqueId id;
  std::memcpy(id.bytes.data(), name.bytes.data(), name.bytes.size());
  IMEX_TRY(auto opened, open_memory(name, sizeof(Board)));
  std::shared_ptr<MeetingPlace> place(new MeetingPlace(std::move(memory), std::move(opened), id));
  place->board().magic = kBoardMagic;
  return place;
}

Result<std::shared_ptr<MeetingPlace>> MeetingPlace::join(const UniqueId& id) {
  MemoryName name;
  std::memcpy(name.bytes.data(), id.bytes.data(), name.bytes.size());
  auto memory = open_memory(name, sizeof(Board));
  if (!memory) return fail(std::move(memory).error().context("join the other ranks"));
  std::shared_ptr<MeetingPlace> place(new MeetingPlace(nullptr, std::move(*memory), id));
  if (place->board().magic != kBoardMagic) {
    return fail(Errc::kDataLoss, "join the other ranks: their meeting place is damaged");
  }
  return place;
}

Result<std::vector<MemoryName>> MeetingPlace::attend(const Attendance& who,
                                                     const MemoryName& name) {
  Board& all = board();
  Board::Slot& mine = all.slots[who.rank];
  std::uint32_t free = 0;
  if (!mine.taken.compare_exchange_strong(free, 1, std::memory_order_relaxed)) {
    return fail(Errc::kAlreadyExists, fmt::format("rank {} has joined already", who.rank),
                "give each rank its own number, and each communicator its own rendezvous");
  }
  mine.ranks = who.ranks;
  mine.options_digest = who.options_digest;
  mine.name = name;
  mine.filled.store(1, std::memory_order_release);
  Signal(all.arrived).notify();

  const WaitOptions wait{.deadline = who.deadline, .policy = WaitPolicy::for_ranks(who.ranks)};
  const WaitResult waited = Signal(all.arrived).wait_until(who.ranks, wait);
  std::vector<MemoryName> names(who.ranks);
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank != who.ranks; ++rank) {
    const Board::Slot& slot = all.slots[rank];
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
  if (!waited.ok() || !missing.empty()) {
    return fail(Errc::kDeadlineExceeded,
                fmt::format("{} of {} ranks did not come in time: {}", missing.size(), who.ranks,
                            fmt::join(missing, ", ")));
  }
  return names;
}

Result<void> MeetingPlace::conclude(const Attendance& who) {
  Signal concluded(board().concluded);
  concluded.notify();
  const WaitOptions wait{.deadline = who.deadline, .policy = WaitPolicy::for_ranks(who.ranks)};
  const WaitResult waited = concluded.wait_until(who.ranks, wait);
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
  IMEX_TRY(auto place, exchange::MeetingPlace::create());
  return Rendezvous(std::move(place));
}

}  // namespace imex
