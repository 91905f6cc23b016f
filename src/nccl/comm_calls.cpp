// The operations of a communicator: their arguments, and how they run.

#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "comm.hpp"
#include "comm_turn.hpp"
#include "device_pointer.hpp"

namespace imex::nccl {

namespace {

using Kind = Call::Kind;

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}
bool has_root(Kind kind) {
  return kind == Kind::kReduce || kind == Kind::kBroadcast || kind >= Kind::kGather;
}

const std::byte* bytes_at(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytes_at(void* data) { return static_cast<std::byte*>(data); }

Result<void> check_place(const char* what, const void* data) {
  if (data == nullptr) {
    return fail(Errc::kInvalidArgument, fmt::format("{} buffer is at no address", what));
  }
  if (is_device_memory(data)) {
    return fail(Errc::kInvalidArgument, fmt::format("{} buffer is memory of a CUDA device", what),
                "this library has no CUDA backend yet: pass host memory, or use NVIDIA's library");
  }
  return {};
}

}  // namespace

Result<void> Comm::check_operator(Call& call) {
  if (call.op >= 0 && call.op < ncclNumOps) {
    call.reduce_op = static_cast<ReduceOp>(call.op);
    return {};
  }
  const MutexLock lock(mutex_);
  const std::int64_t index = std::int64_t{call.op} - ncclNumOps;
  if (index < 0 || static_cast<std::size_t>(index) >= operators_.size() ||
      !operators_[static_cast<std::size_t>(index)]) {
    return fail(
        Errc::kInvalidArgument,
        fmt::format("operation {} is none, and was not made for this communicator", call.op));
  }
  const Operator& own = *operators_[static_cast<std::size_t>(index)];
  if (own.type != call.data_type) {
    return fail(Errc::kInvalidArgument,
                fmt::format("operation {} was made for {}, not for {}", call.op,
                            data_type_name(own.type), data_type_name(call.data_type)));
  }
  call.reduce_op = ReduceOp::kSum;
  call.factor = own.value;
  call.factor_at = own.at;
  return {};
}

Result<void> Comm::check_places(const Call& call, const Facts& facts) const {
  if (call.count == 0) return {};
  const bool root = !has_root(call.kind) || call.rank == facts.rank;
  const bool reads = call.kind != Kind::kReceive &&
                     ((call.kind != Kind::kBroadcast && call.kind != Kind::kScatter) || root);
  const bool writes = call.kind != Kind::kSend &&
                      ((call.kind != Kind::kReduce && call.kind != Kind::kGather) || root);
  if (reads) IMEX_CHECK_OK(check_place("the send", call.in));
  if (writes) IMEX_CHECK_OK(check_place("the receive", call.out));
  return {};
}

Result<void> Comm::check(Call& call) {
  IMEX_TRY(const Facts known, usable_facts());
  if (call.type < 0 || call.type >= ncclNumTypes) {
    return fail(Errc::kInvalidArgument, fmt::format("type {} is none of 0 to 11", call.type));
  }
  call.data_type = static_cast<DataType>(call.type);
  constexpr std::size_t kBytesMax = std::numeric_limits<std::ptrdiff_t>::max();
  if (call.count > kBytesMax / element_bytes(call.data_type) / std::max(known.ranks, 1U)) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{} elements of {} for each of {} ranks", call.count,
                            data_type_name(call.data_type), known.ranks));
  }
  if (has_root(call.kind)) {
    if (call.root < 0 || static_cast<std::uint32_t>(call.root) >= known.ranks) {
      return fail(Errc::kInvalidArgument,
                  fmt::format("rank {} of {} ranks", call.root, known.ranks));
    }
    call.rank = static_cast<std::uint32_t>(call.root);
  }
  if (reduces(call.kind)) IMEX_CHECK_OK(check_operator(call));
  return check_places(call, known);
}

const void* Comm::scaled(const Call& call, std::size_t parts) {
  if (!call.factor && call.factor_at == nullptr) return call.in;
  Scalar factor{};
  if (call.factor) {
    factor = *call.factor;
  } else {
    std::memcpy(factor.data(), call.factor_at, element_bytes(call.data_type));
  }
  scratch_.resize(call.bytes() * parts);
  scale(call.data_type, bytes_at(call.in), scratch_.data(), call.count * parts, factor);
  return scratch_.data();
}

Result<void> Comm::run_collective(const Call& call) {
  Communicator& communicator = *communicator_;
  switch (call.kind) {
    case Kind::kAllReduce:
      return communicator.all_reduce(scaled(call, 1), call.out, call.count, call.data_type,
                                     call.reduce_op);
    case Kind::kReduce:
      return communicator.reduce(scaled(call, 1), call.out, call.count, call.data_type,
                                 call.reduce_op, call.rank);
    case Kind::kReduceScatter:
      return communicator.reduce_scatter(scaled(call, communicator.size()), call.out, call.count,
                                         call.data_type, call.reduce_op);
    case Kind::kBroadcast:
      if (call.rank == communicator.rank() && call.in != call.out && call.count != 0) {
        std::memmove(call.out, call.in, call.bytes());
      }
      return communicator.broadcast(call.out, call.bytes(), call.rank);
    case Kind::kAllGather:
      return communicator.all_gather(call.in, call.out, call.bytes());
    case Kind::kAllToAll:
      return communicator.all_to_all(call.in, call.out, call.bytes());
    default:
      return {};  // a message
  }
}

void Comm::add_messages(const Call& call) {
  const std::size_t bytes = call.bytes();
  const std::uint32_t self = communicator_->rank(), ranks = communicator_->size();
  const auto send = [&](const void* in, std::uint32_t peer) {
    sends_.push_back({bytes_at(in), bytes, peer});
  };
  const auto receive = [&](void* out, std::uint32_t peer) {
    receives_.push_back({bytes_at(out), bytes, peer});
  };
  if (call.kind == Kind::kSend || call.kind == Kind::kGather) send(call.in, call.rank);
  if (call.kind == Kind::kReceive || call.kind == Kind::kScatter) receive(call.out, call.rank);
  if (self != call.rank) return;
  for (std::uint32_t rank = 0; rank != ranks; ++rank) {
    if (call.kind == Kind::kGather) receive(bytes_at(call.out) + rank * bytes, rank);
    if (call.kind == Kind::kScatter) send(bytes_at(call.in) + rank * bytes, rank);
  }
}

Result<void> Comm::run_messages(std::span<const Call> calls) {
  sends_.clear();
  receives_.clear();
  for (const Call& call : calls) {
    if (call.is_message()) add_messages(call);
  }
  if (sends_.empty() && receives_.empty()) return {};
  return messages_->exchange(sends_, receives_);
}

Result<void> Comm::run(std::span<const Call> calls) {
  IMEX_TRY(const Turn turn, Turn::take(*this));
  for (const Call& call : calls) {
    if (!call.is_message()) IMEX_CHECK_OK(run_collective(call));
  }
  return run_messages(calls);
}

}  // namespace imex::nccl
