#include "seal.hpp"

#include <sodium.h>

#include "base/bytes.hpp"

namespace imex::domain {
namespace {

constexpr std::size_t kSealedBytes = 48;
static_assert(kSealedBytes + std::tuple_size_v<Secret> == sizeof(Handle));
static_assert(std::tuple_size_v<Secret> >= crypto_generichash_KEYBYTES_MIN);
static_assert(std::tuple_size_v<Secret> >= crypto_generichash_BYTES_MIN);

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Secret keyed_hash(const Secret& key, std::span<const std::byte> bytes) {
  Secret out{};
  crypto_generichash(reinterpret_cast<unsigned char*>(out.data()), out.size(), raw(bytes),
                     bytes.size(), raw(key), key.size());
  return out;
}

Secret handle_mac(const Secret& key, const Uuid& domain_id,
                  std::span<const std::byte, kSealedBytes> sealed) {
  std::array<std::byte, kSealedBytes + 16> bytes{};
  ByteWriter(bytes).put_bytes(sealed).put_bytes(domain_id.bytes);
  return keyed_hash(key, bytes);
}

}  // namespace

std::optional<HandleFields> read_handle(const Handle& handle) noexcept {
  ByteReader in(handle.bytes);
  HandleFields fields;
  fields.export_id = in.get<std::uint64_t>();
  fields.node = in.get<NodeId>();
  const auto padding = in.get_bytes<6>();
  fields.channel = in.get<std::uint32_t>();
  fields.gpu_uid = in.get<std::uint64_t>();
  fields.generation = in.get<std::uint32_t>();
  fields.instance.bytes = in.get_bytes<16>();
  if (padding != std::array<std::byte, 6>{}) return std::nullopt;
  return fields;
}

Seal::Seal(const Secret& key, const Uuid& domain_id) noexcept : key_(key), domain_id_(domain_id) {
  // Idempotent; chooses the fastest implementation for this processor.
  IMEX_ASSERT(sodium_init() >= 0, "the hash needs no more than a processor");
}

Handle Seal::seal(const HandleFields& fields) const noexcept {
  Handle handle;
  ByteWriter out(handle.bytes);
  out.put(fields.export_id).put(fields.node).skip(6).put(fields.channel).put(fields.gpu_uid);
  out.put(fields.generation).put_bytes(fields.instance.bytes);
  IMEX_ASSERT(out.position() == kSealedBytes, "layout of docs/formats/handle.md");
  out.put_bytes(
      handle_mac(key_, domain_id_, std::span<const std::byte>(handle.bytes).first<kSealedBytes>()));
  return handle;
}

bool Seal::verify(const Handle& handle) const noexcept {
  const std::span<const std::byte> bytes(handle.bytes);
  const Secret expected = handle_mac(key_, domain_id_, bytes.first<kSealedBytes>());
  return sodium_memcmp(expected.data(), bytes.subspan(kSealedBytes).data(), expected.size()) == 0;
}

Secret Seal::session_token(SessionId session) const noexcept {
  constexpr char kLabel[] = {'s', 'e', 's', 's', 'i', 'o', 'n'};
  std::array<std::byte, sizeof kLabel + 8> bytes{};
  ByteWriter(bytes).put_bytes(std::as_bytes(std::span(kLabel))).put(session);
  return keyed_hash(key_, bytes);
}

bool Seal::equal(const Secret& a, const Secret& b) noexcept {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::uint64_t Seal::make_id(SessionId session, std::uint32_t number) const noexcept {
  constexpr char kLabel[] = {'i', 'd'};
  std::array<std::byte, sizeof kLabel + 12> bytes{};
  ByteWriter(bytes).put_bytes(std::as_bytes(std::span(kLabel))).put(session).put(number);
  const Secret tag = keyed_hash(key_, bytes);
  return std::uint64_t{number} << 32 | ByteReader(tag).get<std::uint32_t>();
}

bool Seal::owns_id(SessionId session, std::uint64_t id) const noexcept {
  return make_id(session, number_of(id)) == id;
}

}  // namespace imex::domain
