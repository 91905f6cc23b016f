// Names of memory within a domain: the handles of the node daemon.
#include <utility>

#include "base/result.hpp"
#include "connector.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"

namespace imex::exchange {

namespace {

constexpr std::uint64_t kSessionMagic = 0x324D'414E'5845'4d49ULL;  // "IMEXNAM2" in memory

/// What a MemoryName of a session's connector holds.
struct SessionName {
  std::uint64_t magic;
  std::uint64_t nonce;  ///< finds the mapping when both ranks are threads of one process
  std::uint64_t pid_and_ticks[2];
  Handle handle;
};
static_assert(sizeof(SessionName) == 32 + sizeof(Handle));

/// Gives its scope back when the last user of the connector is gone.
class Scope {
 public:
  Scope(Session session, AbortScope scope) : session_(std::move(session)), scope_(scope) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { session_.release_scope(scope_); }
  [[nodiscard]] Session& session() noexcept { return session_; }
  [[nodiscard]] AbortScope scope() const noexcept { return scope_; }

 private:
  Session session_;
  const AbortScope scope_;
};

/// Keeps the order: the export or import ends before the scope that it trips.
struct Exported {
  std::shared_ptr<Scope> scope;
  std::shared_ptr<Allocation> memory;
  Export exported;
};
struct Imported {
  std::shared_ptr<Scope> scope;
  std::shared_ptr<Import> import;
};

class SessionConnector final : public Connector {
 public:
  SessionConnector(std::shared_ptr<Scope> scope, std::uint32_t rank)
      : scope_(std::move(scope)), rank_(rank) {}

  Result<Publication> publish(const std::shared_ptr<Allocation>& memory) override {
    IMEX_TRY(auto exported,
             scope_->session().export_memory(*memory, {.rank = rank_, .scope = scope_->scope()}));
    const std::int32_t pid = os::process_id();
    IMEX_TRY(const std::uint64_t start_ticks, os::process_start_ticks(pid));
    const SessionName named{.magic = kSessionMagic,
                            .nonce = remember_local(memory),
                            .pid_and_ticks = {static_cast<std::uint64_t>(pid), start_ticks},
                            .handle = exported.handle()};
    return Publication{
        .name = pack_name(named),
        .owner = std::make_shared<Exported>(Exported{scope_, memory, std::move(exported)})};
  }

  Result<PeerMemory> open(const MemoryName& name, std::size_t size_bytes) override {
    IMEX_TRY(
        const SessionName named,
        unpack_name<SessionName>(name, kSessionMagic,
                                 "an id that was made without a session serves without one only"));
    if (auto local = find_local(named.nonce)) {
      IMEX_CHECK_OK(check_size(local->size, size_bytes));
      return std::move(*local);
    }
    IMEX_TRY(auto imported, scope_->session().import_memory(
                                named.handle, {.rank = rank_, .scope = scope_->scope()}));
    IMEX_CHECK_OK(check_size(imported.size(), size_bytes));
    PeerMemory memory;
    memory.data = imported.data();
    memory.size = imported.size();
    // Whether that is the process seen here under this number is for the reader to find out: it
    // may live in another container.
    memory.pid = static_cast<std::int32_t>(named.pid_and_ticks[0]);
    memory.start_ticks = named.pid_and_ticks[1];
    memory.import = std::make_shared<Import>(std::move(imported));
    memory.owner = std::make_shared<Imported>(Imported{scope_, memory.import});
    return memory;
  }

  [[nodiscard]] const AbortCell* abort_cell() const noexcept override {
    return scope_->scope().cell();
  }

  Result<std::shared_ptr<Connector>> another(std::uint32_t rank) override {
    return session_connector(scope_->session(), rank);
  }

 private:
  const std::shared_ptr<Scope> scope_;
  const std::uint32_t rank_;
};

}  // namespace

Result<std::shared_ptr<Connector>> session_connector(const Session& session, std::uint32_t rank) {
  Session shared = session.share();
  IMEX_TRY(const AbortScope scope, shared.create_scope());
  return std::make_shared<SessionConnector>(std::make_shared<Scope>(std::move(shared), scope),
                                            rank);
}

}  // namespace imex::exchange
