// The public classes: thin, so that the installed headers show nothing of the engine.
#include <utility>

#include <imex/session.hpp>

#include "base/result.hpp"
#include "memory/abort_page.hpp"
#include "session_core.hpp"

namespace imex {

// ---- AbortScope ----

std::optional<Error> AbortScope::error() const {
  if (cell_ == nullptr) return std::nullopt;
  // Acquire: pairs with the release of whoever set it.
  const std::uint64_t word = cell_->word.load(std::memory_order_acquire);
  if (word == 0) return std::nullopt;
  return memory::abort_error(word);
}

void AbortScope::abort(std::uint32_t by_rank) noexcept {
  if (cell_ != nullptr) static_cast<void>(memory::trip_abort(*cell_, {Errc::kAborted, by_rank}));
}

// ---- Export ----

Export::Export(std::shared_ptr<domain::client::ExportState> state) noexcept
    : state_(std::move(state)) {}
Export::Export(Export&&) noexcept = default;
Export& Export::operator=(Export&&) noexcept = default;
Export::~Export() = default;
const Handle& Export::handle() const noexcept { return state_->handle; }
std::uint64_t Export::id() const noexcept { return state_->record->id; }
std::uint32_t Export::generation() const noexcept { return state_->generation; }

// ---- Import ----

Import::Import(std::shared_ptr<domain::client::ImportState> state) noexcept
    : state_(std::move(state)) {}
Import::Import(Import&&) noexcept = default;
Import& Import::operator=(Import&&) noexcept = default;
Import::~Import() = default;
std::byte* Import::data() noexcept { return state_->record->segment->data(); }
const std::byte* Import::data() const noexcept { return state_->record->segment->data(); }
std::size_t Import::size() const noexcept { return state_->record->segment->size(); }
std::uint64_t Import::id() const noexcept { return state_->record->id; }
std::uint32_t Import::exporter_rank() const noexcept { return state_->record->exporter_rank; }
std::uint32_t Import::generation() const noexcept { return state_->record->segment->generation(); }

Result<Import::Operation> Import::begin_operation() {
  if (!state_->record->segment->begin_operation()) {
    return fail(Error{Errc::kRevoked, "the imported memory was revoked",
                      "import again once the GPUs share a partition",
                      state_->record->exporter_rank});
  }
  return Operation(state_);
}

Import::Operation::Operation(std::shared_ptr<domain::client::ImportState> state) noexcept
    : state_(std::move(state)) {}
Import::Operation::Operation(Operation&&) noexcept = default;
Import::Operation& Import::Operation::operator=(Operation&& other) noexcept {
  if (this != &other) {
    if (state_ != nullptr) state_->record->segment->end_operation();
    state_ = std::move(other.state_);
  }
  return *this;
}
Import::Operation::~Operation() {
  if (state_ != nullptr) state_->record->segment->end_operation();
}

// ---- Session ----

Session::Session(std::shared_ptr<domain::client::SessionCore> core) noexcept
    : core_(std::move(core)) {}
Session::Session(Session&&) noexcept = default;

Session& Session::operator=(Session&& other) noexcept {
  if (this != &other) {
    const Session former(std::move(*this));  // ends as ~Session() does
    core_ = std::move(other.core_);
    shared_ = other.shared_;
  }
  return *this;
}

Session::~Session() {
  // Exports and imports may outlive this object; the callback's captures may not.
  if (core_ != nullptr && !shared_) core_->detach();
}

Session Session::share() const {
  Session other(core_);
  other.shared_ = true;
  return other;
}

Result<Session> Session::open(const SessionOptions& options) {
  IMEX_TRY(auto core, domain::client::SessionCore::open(options));
  return Session(std::move(core));
}

Result<Export> Session::export_memory(Allocation& allocation, const ExportOptions& options) {
  IMEX_TRY(auto state,
           domain::client::SessionCore::export_memory(core_, allocation.impl_, options));
  return Export(std::move(state));
}

Result<Import> Session::import_memory(const Handle& handle, const ImportOptions& options) {
  IMEX_TRY(auto state, domain::client::SessionCore::import_memory(core_, handle, options));
  return Import(std::move(state));
}

Result<void> Session::re_export(Export& exported) {
  if (exported.state_->core != core_) {
    return fail(Errc::kInvalidArgument, "export again: the export is of another session");
  }
  return core_->re_export(*exported.state_);
}

AbortScope Session::default_scope() const noexcept { return core_->default_scope(); }
Result<AbortScope> Session::create_scope() { return core_->create_scope(); }
void Session::release_scope(AbortScope scope) noexcept { core_->release_scope(scope); }
int Session::event_fd() const noexcept { return core_->events().fd(); }
std::optional<SessionEvent> Session::next_event() { return core_->events().pop(); }
std::uint64_t Session::events_dropped() const noexcept { return core_->events().dropped(); }
void Session::on_event(std::function<void(const SessionEvent&)> callback) {
  core_->events().set_callback(std::move(callback));
}
std::uint32_t Session::channel() const noexcept { return core_->identity().channel; }
std::uint16_t Session::node_id() const noexcept { return core_->identity().node; }
std::uint32_t Session::gpu_index() const noexcept { return core_->identity().gpu_index; }
std::uint64_t Session::gpu_uid() const noexcept { return core_->identity().gpu_uid; }

}  // namespace imex
