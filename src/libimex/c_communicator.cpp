// The C API of communicators.
#include "c_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace {

using imex::Errc;
using imex::c::check_both;
using imex::c::check_vector;
using imex::c::done;
using imex::c::failed;
using imex::c::missing;
using imex::c::to_op;
using imex::c::to_type;

static_assert(sizeof(imex_unique_id) == sizeof(imex::UniqueId));
static_assert(IMEX_UINT16 + 1 == imex::kDataTypeCount && IMEX_AVG + 1 == imex::kReduceOpCount &&
              IMEX_ALGORITHM_TWO_LEVEL + 1 == imex::kAlgorithmCount);

imex::UniqueId to_id(const imex_unique_id& id) {
  imex::UniqueId result;
  std::memcpy(result.bytes.data(), id.bytes, sizeof id.bytes);
  return result;
}

imex::Result<imex::CommunicatorOptions> to_options(const imex_communicator_options* given) {
  auto chosen =
      imex::c::options_or_default(imex_communicator_options IMEX_COMMUNICATOR_OPTIONS_INIT, given);
  if (!chosen) return imex::fail(std::move(chosen).error());
  const auto is_none = [](const char* what, std::uint32_t number) {
    return imex::fail(Errc::kInvalidArgument, std::string("communicator: ") + what + " " +
                                                  std::to_string(number) + " is none");
  };
  if (chosen->determinism > IMEX_FAST) return is_none("determinism", chosen->determinism);
  if (chosen->check > IMEX_CHECK_FROM_ENVIRONMENT) return is_none("check", chosen->check);
  if (chosen->two_copies > 1) return is_none("two_copies", chosen->two_copies);
  if (chosen->algorithm >= imex::kAlgorithmCount) return is_none("algorithm", chosen->algorithm);
  imex::CommunicatorOptions options{
      .lanes = chosen->lanes,
      .slot_bytes = chosen->slot_bytes,
      .timeout = std::chrono::milliseconds(chosen->timeout_ms),
      .determinism = static_cast<imex::Determinism>(chosen->determinism),
      .algorithm = static_cast<imex::Algorithm>(chosen->algorithm)};
  options.single_copy = chosen->two_copies == 0;
  if (chosen->check != IMEX_CHECK_FROM_ENVIRONMENT) options.check = chosen->check != 0;
  if (chosen->locality != IMEX_LOCALITY_BY_TOPOLOGY) options.locality = chosen->locality;
  return options;
}

}  // namespace

// ---- meeting ----

void imex_unique_id_to_hex(const imex_unique_id* id, char out[257]) {
  const std::string text = to_id(*id).to_hex();
  std::memcpy(out, text.c_str(), text.size() + 1);
}

int imex_unique_id_from_hex(const char* text, imex_unique_id* out) {
  if (text == nullptr) return missing("text");
  if (out == nullptr) return missing("out");
  const auto id = imex::UniqueId::from_hex(text);
  if (!id) return failed(id.error());
  std::memcpy(out->bytes, id->bytes.data(), sizeof out->bytes);
  return IMEX_OK;
}

int imex_rendezvous_create(imex_rendezvous** out) {
  if (out == nullptr) return missing("out");
  return imex::c::give(imex::Rendezvous::create(), out);
}
int imex_rendezvous_create_on(imex_session* session, imex_rendezvous** out) {
  if (session == nullptr) return missing("session");
  if (out == nullptr) return missing("out");
  return imex::c::give(imex::Rendezvous::create(session->value), out);
}
void imex_rendezvous_end(imex_rendezvous* rendezvous) { delete rendezvous; }
imex_unique_id imex_rendezvous_id(const imex_rendezvous* rendezvous) {
  imex_unique_id id;
  std::memcpy(id.bytes, rendezvous->value.id().bytes.data(), sizeof id.bytes);
  return id;
}

int imex_communicator_create(const imex_unique_id* id, uint32_t rank, uint32_t ranks,
                             const imex_communicator_options* options, imex_communicator** out) {
  if (id == nullptr) return missing("id");
  if (out == nullptr) return missing("out");
  auto chosen = to_options(options);
  if (!chosen) return failed(std::move(chosen).error());
  return imex::c::give(imex::Communicator::create(to_id(*id), rank, ranks, *chosen), out);
}

int imex_communicator_create_on(imex_session* session, const imex_unique_id* id, uint32_t rank,
                                uint32_t ranks, const imex_communicator_options* options,
                                imex_communicator** out) {
  if (session == nullptr) return missing("session");
  if (id == nullptr) return missing("id");
  if (out == nullptr) return missing("out");
  auto chosen = to_options(options);
  if (!chosen) return failed(std::move(chosen).error());
  return imex::c::give(imex::Communicator::create(session->value, to_id(*id), rank, ranks, *chosen),
                       out);
}

void imex_communicator_end(imex_communicator* communicator) { delete communicator; }
uint32_t imex_communicator_rank(const imex_communicator* communicator) {
  return communicator->value.rank();
}
uint32_t imex_communicator_size(const imex_communicator* communicator) {
  return communicator->value.size();
}
uint64_t imex_communicator_generation(const imex_communicator* communicator) {
  return communicator->value.generation();
}

// ---- operations ----

int imex_all_reduce(imex_communicator* communicator, const void* in, void* out, size_t count,
                    imex_data_type type, imex_reduce_op op, uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  return done(communicator->value.all_reduce(in, out, count, to_type(type), to_op(op), lane));
}

int imex_reduce_scatter(imex_communicator* communicator, const void* in, void* out, size_t count,
                        imex_data_type type, imex_reduce_op op, uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  return done(communicator->value.reduce_scatter(in, out, count, to_type(type), to_op(op), lane));
}

int imex_all_gather(imex_communicator* communicator, const void* in, void* out, size_t bytes,
                    uint32_t lane) {
  const std::uint32_t parts = communicator == nullptr ? 1 : communicator->value.size();
  if (const int code = check_both(communicator, in, 1, out, parts, bytes); code != IMEX_OK) {
    return code;
  }
  return done(communicator->value.all_gather(in, out, bytes, lane));
}

int imex_broadcast(imex_communicator* communicator, void* buffer, size_t bytes, uint32_t root,
                   uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  if (const int code = check_vector(buffer, bytes, 1, "buffer"); code != IMEX_OK) return code;
  return done(communicator->value.broadcast(buffer, bytes, root, lane));
}

int imex_reduce(imex_communicator* communicator, const void* in, void* out, size_t count,
                imex_data_type type, imex_reduce_op op, uint32_t root, uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  return done(communicator->value.reduce(in, out, count, to_type(type), to_op(op), root, lane));
}

int imex_all_to_all(imex_communicator* communicator, const void* in, void* out, size_t bytes,
                    uint32_t lane) {
  const std::uint32_t parts = communicator == nullptr ? 1 : communicator->value.size();
  if (const int code = check_both(communicator, in, parts, out, parts, bytes); code != IMEX_OK) {
    return code;
  }
  return done(communicator->value.all_to_all(in, out, bytes, lane));
}

int imex_all_to_all_v(imex_communicator* communicator, const imex_part* parts, uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  if (parts == nullptr) return missing("parts");
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<std::byte>> receives;
  for (const imex_part& part : std::span(parts, communicator->value.size())) {
    int code = check_vector(part.send, part.send_bytes, 1, "send of a part");
    if (code == IMEX_OK) {
      code = check_vector(part.receive, part.receive_bytes, 1, "receive of a part");
    }
    if (code != IMEX_OK) return code;
    sends.emplace_back(static_cast<const std::byte*>(part.send), part.send_bytes);
    receives.emplace_back(static_cast<std::byte*>(part.receive), part.receive_bytes);
  }
  return done(communicator->value.all_to_all_v(sends, receives, lane));
}

int imex_send(imex_communicator* communicator, const void* data, size_t bytes, uint32_t peer,
              uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  if (const int code = check_vector(data, bytes, 1, "data"); code != IMEX_OK) return code;
  return done(communicator->value.send(data, bytes, peer, lane));
}

int imex_receive(imex_communicator* communicator, void* data, size_t bytes, uint32_t peer,
                 uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  if (const int code = check_vector(data, bytes, 1, "data"); code != IMEX_OK) return code;
  return done(communicator->value.receive(data, bytes, peer, lane));
}

int imex_send_receive(imex_communicator* communicator, const void* data, size_t bytes, uint32_t to,
                      void* into, size_t into_bytes, uint32_t from, uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  if (const int code = check_vector(data, bytes, 1, "data"); code != IMEX_OK) return code;
  if (const int code = check_vector(into, into_bytes, 1, "into"); code != IMEX_OK) return code;
  return done(communicator->value.send_receive(data, bytes, to, into, into_bytes, from, lane));
}

int imex_barrier(imex_communicator* communicator, uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  return done(communicator->value.barrier(lane));
}

// ---- memory ----

int imex_communicator_allocate(imex_communicator* communicator, size_t bytes, void** out) {
  return imex_communicator_allocate_with(communicator, bytes, nullptr, out);
}

int imex_communicator_allocate_with(imex_communicator* communicator, size_t bytes,
                                    const imex_allocation_options* options, void** out) {
  if (communicator == nullptr) return missing("communicator");
  if (out == nullptr) return missing("out");
  const auto chosen = imex::c::to_allocation_options(options);
  if (!chosen) return failed(chosen.error());
  const auto memory = communicator->value.allocate(bytes, *chosen);
  if (!memory) return failed(memory.error());
  *out = memory->data();
  return IMEX_OK;
}

int imex_communicator_peer_memory(const imex_communicator* communicator, const void* buffer,
                                  size_t bytes, uint32_t peer, void** out) {
  if (communicator == nullptr) return missing("communicator");
  if (out == nullptr) return missing("out");
  if (const int code = check_vector(buffer, bytes, 1, "buffer"); code != IMEX_OK) return code;
  const auto memory =
      communicator->value.peer_memory({static_cast<const std::byte*>(buffer), bytes}, peer);
  if (!memory) return failed(memory.error());
  *out = memory->data();
  return IMEX_OK;
}

int imex_put(imex_communicator* communicator, const void* data, void* target, size_t bytes,
             uint32_t peer, uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  if (const int code = check_vector(data, bytes, 1, "data"); code != IMEX_OK) return code;
  return done(communicator->value.put(data, target, bytes, peer, lane));
}

int imex_put_signal(imex_communicator* communicator, const void* data, void* target, size_t bytes,
                    uint32_t peer, uint32_t signal, uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  if (const int code = check_vector(data, bytes, 1, "data"); code != IMEX_OK) return code;
  return done(communicator->value.put_signal(data, target, bytes, peer, signal, lane));
}

int imex_wait_signal(imex_communicator* communicator, uint32_t peer, uint64_t count,
                     uint32_t signal, uint32_t lane) {
  if (communicator == nullptr) return missing("communicator");
  return done(communicator->value.wait_signal(peer, count, signal, lane));
}

// ---- the end, and what comes after ----

void imex_communicator_abort(imex_communicator* communicator) {
  if (communicator != nullptr) communicator->value.abort();
}

int imex_communicator_error(const imex_communicator* communicator) {
  if (communicator == nullptr) return missing("communicator");
  auto error = communicator->value.async_error();
  return error ? failed(std::move(*error)) : IMEX_OK;
}

int imex_communicator_shrink(imex_communicator* communicator, const uint32_t* dead,
                             size_t dead_count, imex_communicator** out) {
  if (communicator == nullptr) return missing("communicator");
  if (out == nullptr) return missing("out");
  if (dead_count != 0 && dead == nullptr) return missing("dead");
  return imex::c::give(communicator->value.shrink({dead, dead_count}), out);
}

int imex_communicator_split(imex_communicator* communicator, uint32_t color, int64_t key,
                            imex_communicator** out) {
  if (communicator == nullptr) return missing("communicator");
  if (out == nullptr) return missing("out");
  auto made =
      communicator->value.split(color == IMEX_NO_COLOR ? std::nullopt : std::optional(color), key);
  if (!made) return failed(std::move(made).error());
  *out = *made ? new imex_communicator{std::move(**made)} : nullptr;
  return IMEX_OK;
}

int imex_communicator_rendezvous(const imex_communicator* communicator, imex_rendezvous** out) {
  if (communicator == nullptr) return missing("communicator");
  if (out == nullptr) return missing("out");
  return imex::c::give(communicator->value.rendezvous(), out);
}

int imex_communicator_grow(imex_communicator* communicator, const imex_unique_id* id,
                           uint32_t ranks, imex_communicator** out) {
  if (communicator == nullptr) return missing("communicator");
  if (id == nullptr) return missing("id");
  if (out == nullptr) return missing("out");
  return imex::c::give(communicator->value.grow(to_id(*id), ranks), out);
}

size_t imex_communicator_lost_ranks(const imex_communicator* communicator, uint32_t* ranks,
                                    size_t capacity) {
  const std::vector<std::uint32_t> lost = communicator->value.lost_ranks();
  if (ranks != nullptr) std::copy_n(lost.begin(), std::min(capacity, lost.size()), ranks);
  return lost.size();
}

int imex_communicator_count(const imex_communicator* communicator,
                            imex_communicator_counters* out) {
  if (communicator == nullptr) return missing("communicator");
  if (out == nullptr) return missing("out");
  if (out->struct_size < sizeof(imex_communicator_counters)) {
    return failed({Errc::kInvalidArgument, "counters: struct_size is too small",
                   "set it to sizeof(imex_communicator_counters)"});
  }
  const imex::CommunicatorCounters counters = communicator->value.counters();
  out->operations = counters.operations;
  out->bytes = counters.bytes;
  out->window_bytes = communicator->value.window_bytes();
  return IMEX_OK;
}
