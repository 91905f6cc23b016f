#include "testing/soak_script.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/result.hpp"

namespace imex::exchange::testing_kit {

namespace {

using reference::Bytes;

constexpr std::size_t kBytesMax = 200'000;  ///< of one rank's vector
constexpr std::size_t kRanksMost = 8;
constexpr std::size_t kVector = kBytesMax * 2 + 64;  ///< room for what several ranks bring
constexpr std::array kNames{"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                            "reduce",     "all_to_all",     "barrier",    "all_to_all_v",
                            "shift",      "put_signal"};

}  // namespace

Error SoakScript::wrong(const Call& call, std::string_view what) const {
  return {Errc::kDataLoss,
          fmt::format("rank {} of {}: {} of {} {} {}, offset {}, in place {}, registered {}: {}",
                      comm_.rank(), comm_.size(), kNames[static_cast<std::size_t>(call.kind)],
                      call.elements, data_type_name(call.type), reduce_op_name(call.op),
                      call.offset, call.in_place, call.registered, what)};
}

Result<void> SoakScript::allocate() {
  const Pages pages = random_() % 2 == 0 ? Pages::kAuto : Pages::kSmall;
  IMEX_TRY(area_, comm_.allocate(3 * kVector, {.pages = pages}));
  return {};
}

SoakScript::Call SoakScript::draw(bool startable, bool first) {
  Call call;
  const auto kinds = static_cast<std::uint64_t>(startable ? Kind::kAllToAllV : Kind::kCount);
  call.kind = static_cast<Kind>(random_() % kinds);
  call.type = static_cast<DataType>(random_() % kDataTypeCount);
  call.op = static_cast<ReduceOp>(random_() % kReduceOpCount);
  const std::size_t limit = kBytesMax >> random_() % 16;
  // Those that move a part per rank must find room for all of them.
  call.elements = random_() % (limit / element_bytes(call.type) / kRanksMost + 2);
  if (call.kind == Kind::kAllReduce) call.elements *= kRanksMost;
  call.root = static_cast<std::uint32_t>(random_() % comm_.size());
  call.offset = random_() % 9;
  call.in_place = random_() % 2 == 0;
  call.registered = random_() % 2 == 0 && first;  // one of those that run together
  call.seed = random_() | 1U;
  const bool any_bits = random_() % 2 == 0;
  // Sums in another order than the reference's are compared by size: no NaNs nor infinities.
  if (any_bits && exact_) --call.seed;
  return call;
}

SoakScript::Prepared SoakScript::prepare(const Call& call, std::uint32_t lane) {
  Prepared made{.call = call, .lane = lane, .memory = {}, .inputs = {}};
  const std::uint32_t ranks = comm_.size(), self = comm_.rank();
  const bool wide = call.kind == Kind::kReduceScatter || call.kind == Kind::kAllToAll;
  const std::size_t count = call.elements * (wide ? ranks : 1);
  for (std::uint32_t rank = 0; rank != ranks; ++rank)
    made.inputs.push_back(reference::random_bytes(call.type, count, call.seed + 2 * rank));

  std::byte* base = area_.data();
  if (!call.registered) {
    made.memory.resize(2 * kVector);
    base = made.memory.data();
  }
  made.in = base + call.offset;
  made.out = base + kVector + call.offset;
  const std::size_t part = call.elements * element_bytes(call.type);
  if (call.in_place) {
    if (call.kind == Kind::kAllReduce || call.kind == Kind::kReduce) made.out = made.in;
    if (call.kind == Kind::kReduceScatter) made.out = made.in + self * part;
    if (call.kind == Kind::kAllGather) made.in = made.out + self * part;
  }
  const Bytes& own = made.inputs[self];
  const bool given = call.kind != Kind::kBroadcast || self == call.root;
  if (given && !own.empty()) std::memcpy(made.in, own.data(), own.size());
  return made;
}

Result<void> SoakScript::run(Prepared& p) {
  const auto& [kind, type, op, elements, root, offset, in_place, registered, seed] = p.call;
  const std::size_t bytes = elements * element_bytes(type);
  switch (kind) {
    case Kind::kAllReduce:
      return comm_.all_reduce(p.in, p.out, elements, type, op, p.lane);
    case Kind::kReduceScatter:
      return comm_.reduce_scatter(p.in, p.out, elements, type, op, p.lane);
    case Kind::kAllGather:
      return comm_.all_gather(p.in, p.out, bytes, p.lane);
    case Kind::kBroadcast:
      return comm_.broadcast(p.in, bytes, root, p.lane);
    case Kind::kReduce:
      return comm_.reduce(p.in, p.out, elements, type, op, root, p.lane);
    case Kind::kAllToAll:
      return comm_.all_to_all(p.in, p.out, bytes, p.lane);
    case Kind::kBarrier:
      return comm_.barrier(p.lane);
    case Kind::kAllToAllV:
      return all_to_all_v(p.call, p.lane);
    case Kind::kShift:
      return shift(p.call, p.lane);
    case Kind::kPutSignal:
      return put_signal(p.call);
    case Kind::kCount:
      break;
  }
  return fail(Errc::kInternal, "no such call");
}

Result<Request> SoakScript::start(Prepared& p) {
  const auto& [kind, type, op, elements, root, offset, in_place, registered, seed] = p.call;
  const std::size_t bytes = elements * element_bytes(type);
  switch (kind) {
    case Kind::kAllReduce:
      return comm_.start_all_reduce(p.in, p.out, elements, type, op, p.lane);
    case Kind::kReduceScatter:
      return comm_.start_reduce_scatter(p.in, p.out, elements, type, op, p.lane);
    case Kind::kAllGather:
      return comm_.start_all_gather(p.in, p.out, bytes, p.lane);
    case Kind::kBroadcast:
      return comm_.start_broadcast(p.in, bytes, root, p.lane);
    case Kind::kReduce:
      return comm_.start_reduce(p.in, p.out, elements, type, op, root, p.lane);
    case Kind::kAllToAll:
      return comm_.start_all_to_all(p.in, p.out, bytes, p.lane);
    case Kind::kBarrier:
      return comm_.start_barrier(p.lane);
    default:
      return fail(Errc::kInternal, "cannot be started");
  }
}

Bytes SoakScript::wanted(const Prepared& p) const {
  const Call& call = p.call;
  const std::size_t part = call.elements * element_bytes(call.type);
  const auto slice = [&](const Bytes& all, std::uint32_t rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * part);
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(part));
  };
  Bytes result;
  switch (call.kind) {
    case Kind::kAllReduce:
      return reference::reduce(call.type, call.op, p.inputs);
    case Kind::kReduce:
      return comm_.rank() == call.root ? reference::reduce(call.type, call.op, p.inputs) : result;
    case Kind::kReduceScatter:
      return slice(reference::reduce(call.type, call.op, p.inputs), comm_.rank());
    case Kind::kAllGather:
      for (const Bytes& input : p.inputs) result.insert(result.end(), input.begin(), input.end());
      return result;
    case Kind::kAllToAll:
      for (const Bytes& input : p.inputs) {
        const Bytes mine = slice(input, comm_.rank());
        result.insert(result.end(), mine.begin(), mine.end());
      }
      return result;
    case Kind::kBroadcast:
      return p.inputs[call.root];
    default:
      return result;
  }
}

Result<void> SoakScript::verify(const Prepared& p) const {
  const Call& call = p.call;
  const Bytes result = wanted(p);
  if (result.empty()) return {};
  const std::byte* const at = call.kind == Kind::kBroadcast ? p.in : p.out;
  const Bytes found(at, at + result.size());
  const bool sums = call.kind == Kind::kAllReduce && call.op == ReduceOp::kSum;
  if (sums && !exact_ && reference::precision_of(call.type) != 0) {
    const std::ptrdiff_t off = reference::first_far_off(call.type, p.inputs, found);
    if (off >= 0) return fail(wrong(call, fmt::format("element {} is far off", off)));
    return {};
  }
  // A product in another order may overflow elsewhere: it has been compared with exact orders.
  if (!exact_ && call.kind == Kind::kAllReduce && call.op == ReduceOp::kProd &&
      reference::precision_of(call.type) != 0) {
    return {};
  }
  const std::ptrdiff_t at_byte = reference::first_difference(call.type, found, result);
  if (at_byte >= 0) return fail(wrong(call, fmt::format("differs at byte {}", at_byte)));
  return {};
}

Bytes SoakScript::piece(const Call& call, std::uint32_t from, std::uint32_t to,
                        std::size_t bytes) const {
  return reference::random_bytes(DataType::kUint8, bytes, 2 * (call.seed / 2 + 64 * from + to));
}

Result<void> SoakScript::all_to_all_v(const Call& call, std::uint32_t lane) {
  const std::uint32_t ranks = comm_.size(), self = comm_.rank();
  const auto bytes_of = [&](std::uint32_t from, std::uint32_t to) {
    return call.elements * ((from * 7 + to * 3 + call.root) % 5);
  };
  std::vector<Bytes> out(ranks), in(ranks);
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (std::uint32_t rank = 0; rank != ranks; ++rank) {
    out[rank] = piece(call, self, rank, bytes_of(self, rank));
    in[rank].resize(bytes_of(rank, self));
    sends.emplace_back(out[rank]);
    receives.emplace_back(in[rank]);
  }
  IMEX_CHECK_OK(comm_.all_to_all_v(sends, receives, lane));
  for (std::uint32_t rank = 0; rank != ranks; ++rank) {
    if (in[rank] != piece(call, rank, self, bytes_of(rank, self)))
      return fail(wrong(call, fmt::format("from rank {}", rank)));
  }
  return {};
}

Result<void> SoakScript::shift(const Call& call, std::uint32_t lane) {
  const std::uint32_t ranks = comm_.size(), self = comm_.rank();
  if (ranks == 1) return {};
  const std::uint32_t next = (self + 1) % ranks, previous = (self + ranks - 1) % ranks;
  const std::size_t bytes = call.elements * element_bytes(call.type);
  const Bytes sent = piece(call, self, next, bytes);
  Bytes received(bytes);
  // Odd ranks receive first: a ring in which all send need not hold all of it.
  if (self % 2 == 0) IMEX_CHECK_OK(comm_.send(sent.data(), bytes, next, lane));
  IMEX_CHECK_OK(comm_.receive(received.data(), bytes, previous, lane));
  if (self % 2 != 0) IMEX_CHECK_OK(comm_.send(sent.data(), bytes, next, lane));
  if (received == piece(call, previous, self, bytes)) return {};
  return fail(wrong(call, "differs"));
}

Result<void> SoakScript::put_signal(const Call& call) {
  const std::uint32_t ranks = comm_.size(), self = comm_.rank();
  if (ranks == 1) return {};
  const std::uint32_t next = (self + 1) % ranks, previous = (self + ranks - 1) % ranks;
  const std::size_t bytes = call.elements * element_bytes(call.type);
  std::byte* const target = area_.data() + 2 * kVector + call.offset;
  const Bytes sent = piece(call, self, next, bytes);
  IMEX_CHECK_OK(comm_.put_signal(sent.data(), target, bytes, next, signal_));
  IMEX_CHECK_OK(comm_.wait_signal(previous, ++puts_, signal_));
  if (!std::ranges::equal(std::span(target, bytes), piece(call, previous, self, bytes)))
    return fail(wrong(call, "differs"));
  return comm_.barrier();  // before anybody puts there again
}

Result<void> SoakScript::step() {
  if (area_.empty()) IMEX_CHECK_OK(allocate());
  const bool started = random_() % 3 == 0;
  const auto count = 1 + random_() % 3;
  const auto lane = static_cast<std::uint32_t>(random_() % lanes_);
  std::vector<Prepared> together;
  for (std::uint32_t i = 0; i != count; ++i)
    together.push_back(prepare(draw(started, i == 0), started ? (lane + i) % lanes_ : lane));
  if (!started) {
    for (Prepared& each : together) IMEX_CHECK_OK(run(each));
  } else {
    std::vector<Request> requests;
    Result<void> result;
    for (Prepared& each : together) {
      auto request = start(each);
      if (!request) {
        result = fail(request.error());
        break;
      }
      requests.push_back(std::move(*request));
    }
    // All of them: their vectors end with this function.
    for (Request& request : requests) {
      auto done = request.wait();
      if (!done && result) result = fail(done.error());
    }
    IMEX_CHECK_OK(std::move(result));
  }
  for (const Prepared& each : together) IMEX_CHECK_OK(verify(each));
  return {};
}

}  // namespace imex::exchange::testing_kit
