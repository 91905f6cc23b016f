#include <functional>
#include <utility>

#include <imex/communicator.hpp>

#include "base/result.hpp"
#include "core.hpp"
#include "meeting_place.hpp"

namespace imex {

namespace {

const std::byte* as_bytes_of(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* as_bytes_of(void* data) { return static_cast<std::byte*>(data); }

std::function<Result<void>()> unless_stopped(const CommunicatorOptions& options) {
  return [stop = options.stop]() -> Result<void> {
    if (!stop.stop_requested()) return {};
    return fail(Errc::kAborted, "the caller stopped to wait for the other ranks");
  };
}

}  // namespace

Communicator::Communicator(std::unique_ptr<exchange::Core> core) noexcept
    : core_(std::move(core)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Result<Communicator> Communicator::create(const UniqueId& id, std::uint32_t rank,
                                          std::uint32_t ranks, const CommunicatorOptions& options) {
  IMEX_TRY(auto core, exchange::Core::meet(exchange::direct_connector(), id, rank, ranks, options,
                                           unless_stopped(options)));
  return Communicator(std::move(core));
}

Result<Communicator> Communicator::create(const Session& session, const UniqueId& id,
                                          std::uint32_t rank, std::uint32_t ranks,
                                          const CommunicatorOptions& options) {
  IMEX_TRY(auto connector, exchange::session_connector(session, rank));
  IMEX_TRY(auto core, exchange::Core::meet(std::move(connector), id, rank, ranks, options,
                                           unless_stopped(options)));
  return Communicator(std::move(core));
}

std::uint32_t Communicator::rank() const noexcept { return core_->identity().rank; }
std::uint32_t Communicator::size() const noexcept { return core_->identity().ranks; }
std::uint64_t Communicator::generation() const noexcept { return core_->identity().generation; }

Result<void> Communicator::all_reduce(const void* in, void* out, std::size_t count, DataType type,
                                      ReduceOp op, std::uint32_t lane) {
  return core_->all_reduce({in, out, count, type, op}, lane);
}
Result<void> Communicator::reduce_scatter(const void* in, void* out, std::size_t count,
                                          DataType type, ReduceOp op, std::uint32_t lane) {
  return core_->reduce_scatter({in, out, count, type, op}, lane);
}
Result<void> Communicator::all_gather(const void* in, void* out, std::size_t bytes,
                                      std::uint32_t lane) {
  return core_->all_gather(as_bytes_of(in), as_bytes_of(out), bytes, lane);
}
Result<void> Communicator::broadcast(void* buffer, std::size_t bytes, std::uint32_t root,
                                     std::uint32_t lane) {
  return core_->broadcast({as_bytes_of(buffer), bytes}, root, lane);
}
Result<void> Communicator::reduce(const void* in, void* out, std::size_t count, DataType type,
                                  ReduceOp op, std::uint32_t root, std::uint32_t lane) {
  return core_->reduce({in, out, count, type, op}, root, lane);
}
Result<void> Communicator::all_to_all(const void* in, void* out, std::size_t bytes,
                                      std::uint32_t lane) {
  return core_->all_to_all(as_bytes_of(in), as_bytes_of(out), bytes, lane);
}
Result<void> Communicator::all_to_all_v(std::span<const std::span<const std::byte>> sends,
                                        std::span<const std::span<std::byte>> receives,
                                        std::uint32_t lane) {
  return core_->all_to_all_v({.sends = sends, .receives = receives}, lane);
}
Result<void> Communicator::send(const void* data, std::size_t bytes, std::uint32_t peer,
                                std::uint32_t lane) {
  return core_->send({as_bytes_of(data), bytes}, peer, lane);
}
Result<void> Communicator::receive(void* data, std::size_t bytes, std::uint32_t peer,
                                   std::uint32_t lane) {
  return core_->receive({as_bytes_of(data), bytes}, peer, lane);
}
Result<void> Communicator::send_receive(const void* data, std::size_t bytes, std::uint32_t to,
                                        void* into, std::size_t into_bytes, std::uint32_t from,
                                        std::uint32_t lane) {
  return core_->send_receive(
      {{as_bytes_of(data), bytes}, to, {as_bytes_of(into), into_bytes}, from}, lane);
}
Result<void> Communicator::barrier(std::uint32_t lane) { return core_->barrier(lane); }

// ---- started operations ----

Request::Request(exchange::OperationQueue& queue,
                 std::shared_ptr<exchange::StartedOperation> operation) noexcept
    : queue_(&queue), operation_(std::move(operation)) {}
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&&) noexcept = default;
Request::~Request() = default;
bool Request::test() const { return queue_->done(*operation_); }
Result<void> Request::wait() { return queue_->wait(*operation_); }

template <class Operation>
Result<Request> Communicator::start(std::uint32_t lane, Operation&& operation) {
  // By the core, which stays where it is when the communicator is moved.
  IMEX_TRY(auto started, core_->start(lane, [core = core_.get(), operation]() -> Result<void> {
    return operation(*core);
  }));
  return Request(core_->started(lane), std::move(started));
}

Result<Request> Communicator::start_all_reduce(const void* in, void* out, std::size_t count,
                                               DataType type, ReduceOp op, std::uint32_t lane) {
  return start(lane, [=](exchange::Core& core) {
    return core.all_reduce({in, out, count, type, op}, lane);
  });
}
Result<Request> Communicator::start_reduce_scatter(const void* in, void* out, std::size_t count,
                                                   DataType type, ReduceOp op, std::uint32_t lane) {
  return start(lane, [=](exchange::Core& core) {
    return core.reduce_scatter({in, out, count, type, op}, lane);
  });
}
Result<Request> Communicator::start_all_gather(const void* in, void* out, std::size_t bytes,
                                               std::uint32_t lane) {
  return start(lane, [=](exchange::Core& core) {
    return core.all_gather(as_bytes_of(in), as_bytes_of(out), bytes, lane);
  });
}
Result<Request> Communicator::start_broadcast(void* buffer, std::size_t bytes, std::uint32_t root,
                                              std::uint32_t lane) {
  return start(lane, [=](exchange::Core& core) {
    return core.broadcast({as_bytes_of(buffer), bytes}, root, lane);
  });
}
Result<Request> Communicator::start_reduce(const void* in, void* out, std::size_t count,
                                           DataType type, ReduceOp op, std::uint32_t root,
                                           std::uint32_t lane) {
  return start(lane, [=](exchange::Core& core) {
    return core.reduce({in, out, count, type, op}, root, lane);
  });
}
Result<Request> Communicator::start_all_to_all(const void* in, void* out, std::size_t bytes,
                                               std::uint32_t lane) {
  return start(lane, [=](exchange::Core& core) {
    return core.all_to_all(as_bytes_of(in), as_bytes_of(out), bytes, lane);
  });
}
Result<Request> Communicator::start_send(const void* data, std::size_t bytes, std::uint32_t peer,
                                         std::uint32_t lane) {
  return start(lane, [=](exchange::Core& core) {
    return core.send({as_bytes_of(data), bytes}, peer, lane);
  });
}
Result<Request> Communicator::start_receive(void* data, std::size_t bytes, std::uint32_t peer,
                                            std::uint32_t lane) {
  return start(lane, [=](exchange::Core& core) {
    return core.receive({as_bytes_of(data), bytes}, peer, lane);
  });
}
Result<Request> Communicator::start_barrier(std::uint32_t lane) {
  return start(lane, [=](exchange::Core& core) { return core.barrier(lane); });
}

// ---- memory, failure, other communicators ----

Result<std::span<std::byte>> Communicator::allocate(std::size_t bytes,
                                                    const AllocationOptions& options) {
  return core_->allocate(bytes, options);
}
Result<std::span<std::byte>> Communicator::peer_memory(std::span<const std::byte> buffer,
                                                       std::uint32_t peer) const {
  return core_->peer_memory(buffer, peer);
}
Result<void> Communicator::put(const void* data, void* target, std::size_t bytes,
                               std::uint32_t peer, std::uint32_t lane) {
  return core_->put({as_bytes_of(data), bytes}, as_bytes_of(target), peer, std::nullopt, lane);
}
Result<void> Communicator::put_signal(const void* data, void* target, std::size_t bytes,
                                      std::uint32_t peer, std::uint32_t signal,
                                      std::uint32_t lane) {
  return core_->put({as_bytes_of(data), bytes}, as_bytes_of(target), peer, signal, lane);
}
Result<void> Communicator::wait_signal(std::uint32_t peer, std::uint64_t count,
                                       std::uint32_t signal, std::uint32_t lane) {
  return core_->wait_signal(peer, count, signal, lane);
}
void Communicator::abort() noexcept { core_->abort(); }
std::optional<Error> Communicator::async_error() const { return core_->async_error(); }
std::vector<std::uint32_t> Communicator::lost_ranks() const { return core_->lost_ranks(); }

Result<Communicator> Communicator::shrink(std::span<const std::uint32_t> dead) {
  IMEX_TRY(auto core, core_->shrink(dead));
  return Communicator(std::move(core));
}

Result<std::optional<Communicator>> Communicator::split(std::optional<std::uint32_t> color,
                                                        std::int64_t key) {
  IMEX_TRY(auto core, core_->split(color, key));
  if (core == nullptr) return std::nullopt;
  return std::optional(Communicator(std::move(core)));
}

Result<Rendezvous> Communicator::rendezvous() const {
  IMEX_TRY(auto place, core_->next_meeting());
  return Rendezvous(std::move(place));
}

Result<Communicator> Communicator::grow(const UniqueId& id, std::uint32_t ranks) {
  IMEX_TRY(auto core, core_->grow(id, ranks));
  return Communicator(std::move(core));
}

std::string Communicator::hang_report() const { return core_->hang_report(); }
CommunicatorCounters Communicator::counters() const noexcept { return core_->counters(); }
std::size_t Communicator::window_bytes() const noexcept { return core_->window_bytes(); }
Algorithm Communicator::choice(std::size_t bytes, bool registered) const {
  return core_->choice(bytes, registered);
}
std::string Communicator::explain(bool registered) const { return core_->explain(registered); }

}  // namespace imex
