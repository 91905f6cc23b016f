// Names of memory within one machine: a process and one of its descriptors.
#include "connector.hpp"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "memory/host_allocation.hpp"
#include "memory/imported_segment.hpp"
#include "os/memory.hpp"
#include "os/peer.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "os/thread.hpp"

namespace imex::exchange {

namespace {

constexpr std::uint64_t kDirectMagic = 0x314D'414E'5845'4d49ULL;  // "IMEXNAM1" in memory

/// What a MemoryName of the direct connector holds.
struct DirectName {
  std::uint64_t magic;
  std::uint64_t nonce;  ///< finds the mapping when both ranks are threads of one process
  std::uint64_t start_ticks;
  std::uint64_t inode;
  std::uint64_t mapped_bytes;
  std::int32_t pid;
  std::int32_t fd;
};
static_assert(sizeof(DirectName) == 48);

struct LocalMemory {
  Mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<Allocation>> entries IMEX_GUARDED_BY(mutex);
};

LocalMemory& local_memory() {
  // Never destroyed: a thread may still be on its way in when the process ends.
  static LocalMemory& memory = *new LocalMemory;
  return memory;
}

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
  PeerMemory memory;
  memory.data = mapping.data();
  memory.size = mapping.size();
  memory.pid = name.pid;
  memory.start_ticks = name.start_ticks;
  memory.owner = std::make_shared<os::Mapping>(std::move(mapping));
  return memory;
}

class DirectConnector final : public Connector {
 public:
  Result<Publication> publish(const std::shared_ptr<Allocation>& memory) override {
    const int fd = memory->backend().fds().data;
    IMEX_TRY(const auto facts, os::file_facts(fd));
    const std::int32_t pid = os::process_id();
    IMEX_TRY(const std::uint64_t start_ticks, os::process_start_ticks(pid));
    const DirectName direct{.magic = kDirectMagic,
                            .nonce = remember_local(memory),
                            .start_ticks = start_ticks,
                            .inode = facts.inode,
                            .mapped_bytes = memory->backend().mapped_bytes(),
                            .pid = pid,
                            .fd = fd};
    return Publication{.name = pack_name(direct), .owner = memory};
  }

  Result<PeerMemory> open(const MemoryName& name, std::size_t size_bytes) override {
    IMEX_TRY(
        const DirectName direct,
        unpack_name<DirectName>(name, kDirectMagic,
                                "an id that was made with a session serves with a session only"));
    IMEX_CHECK_OK(check_size(direct.mapped_bytes, size_bytes));
    if (direct.pid != os::process_id()) return map_from(direct);
    auto local = find_local(direct.nonce);
    if (!local) return fail(Errc::kNotFound, "memory of a rank has ended");
    return std::move(*local);
  }

  Result<std::shared_ptr<Connector>> another(std::uint32_t /*rank*/) override {
    return direct_connector();
  }
};

}  // namespace

Result<void> check_size(std::size_t found_bytes, std::size_t wanted_bytes) {
  if (found_bytes >= wanted_bytes) return {};
  return fail(Errc::kDataLoss,
              fmt::format("memory of a rank has {} bytes: {} wanted", found_bytes, wanted_bytes));
}

Result<MemoryHold> begin_hold(const PeerMemory& memory) {
  if (memory.import == nullptr) return std::nullopt;
  IMEX_TRY(auto operation, memory.import->begin_operation());
  return MemoryHold(std::move(operation));
}

std::shared_ptr<Connector> direct_connector() { return std::make_shared<DirectConnector>(); }

std::uint64_t remember_local(const std::shared_ptr<Allocation>& memory) {
  const std::uint64_t nonce = os::SystemRandom().next_u64();
  LocalMemory& local = local_memory();
  const MutexLock lock(local.mutex);
  std::erase_if(local.entries, [](const auto& entry) { return entry.second.expired(); });
  local.entries[nonce] = memory;
  return nonce;
}

std::optional<PeerMemory> find_local(std::uint64_t nonce) {
  LocalMemory& local = local_memory();
  const MutexLock lock(local.mutex);
  const auto found = local.entries.find(nonce);
  auto memory = found == local.entries.end() ? nullptr : found->second.lock();
  if (memory == nullptr) return std::nullopt;
  PeerMemory opened;
  opened.data = memory->data();
  opened.size = memory->backend().mapped_bytes();
  opened.local = true;
  opened.owner = memory;
  return opened;
}

}  // namespace imex::exchange
