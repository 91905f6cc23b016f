// Encryption of `.tensors` files: what records say of it, keys, and decryption by libsodium.
#include "tensors_cipher.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sodium.h>

#include "base/units.hpp"
#include "tensors_records.hpp"

namespace imex::inference {

namespace {

constexpr std::uint16_t kKeyDerivation = 1, kChunked = 2, kWhole = 3;
constexpr std::uint16_t kArgon2 = 1;
constexpr std::uint64_t kOperationsMax = 64, kMemoryBytesMax = std::uint64_t{4} << 30U;
constexpr std::uint64_t kChunkBytesMin = 1024;

unsigned char* raw(std::byte* bytes) noexcept {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): unsigned char may alias
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* raw(const std::byte* bytes) noexcept {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): unsigned char may alias
  return reinterpret_cast<const unsigned char*>(bytes);
}

tl::unexpected<Error> bad_cipher(std::string_view what) {
  return fail(Errc::kDataLoss, fmt::format("the encryption of a record: {}", what));
}

Result<TensorsKeyDerivation> read_derivation(ByteReader body) {
  TensorsKeyDerivation derivation;
  const auto method = body.get<std::uint16_t>();
  derivation.operations = body.get<std::uint64_t>();
  derivation.memory_bytes = body.get<std::uint64_t>();
  derivation.algorithm = body.get<std::int32_t>();
  const auto salt_bytes = body.get<std::uint16_t>();
  derivation.salt = body.get_bytes<16>();
  if (!body.ok() || body.remaining() != 0 || salt_bytes != derivation.salt.size()) {
    return bad_cipher("key derivation of a wrong length");
  }
  if (method != kArgon2) {
    return fail(Errc::kUnsupported, fmt::format("key derivation of method {}", method));
  }
  return derivation;
}

Result<void> read_chunked(ByteReader body, std::uint64_t data_bytes, TensorsCipher& cipher) {
  cipher.chunk_bytes = body.get<std::uint64_t>();
  cipher.nonce = body.get_bytes<24>();
  const auto count = body.get<std::uint64_t>();
  if (!body.ok() || cipher.chunk_bytes < kChunkBytesMin || cipher.chunk_bytes % 64 != 0) {
    return bad_cipher(fmt::format("chunks of {} bytes", cipher.chunk_bytes));
  }
  const std::uint64_t wanted =
      data_bytes / cipher.chunk_bytes + (data_bytes % cipher.chunk_bytes != 0);
  if (count != wanted || count != body.remaining() / 16 || body.remaining() % 16 != 0) {
    return bad_cipher(fmt::format("{} chunks for {} bytes", count, data_bytes));
  }
  cipher.macs.resize(count);
  for (auto& mac : cipher.macs) mac = body.get_bytes<16>();
  return {};
}

Result<void> read_whole(ByteReader body, std::uint64_t data_bytes, TensorsCipher& cipher) {
  cipher.chunk_bytes = data_bytes;
  cipher.nonce = body.get_bytes<24>();
  cipher.macs = {body.get_bytes<16>()};
  if (!body.ok() || body.remaining() != 0) return bad_cipher("one piece of a wrong length");
  return {};
}

}  // namespace

Result<TensorsCipher> read_tensors_cipher(std::span<const std::byte> stored,
                                          std::uint64_t data_bytes) {
  ByteReader reader(stored);
  TensorsCipher cipher;
  unsigned ciphers = 0;
  const auto count = reader.get<std::uint16_t>();
  for (std::uint16_t i = 0; i < count; ++i) {
    ByteReader part(reader.view(reader.get<std::uint64_t>()));  // the length counts the type, too
    const auto type = part.get<std::uint16_t>();
    if (!reader.ok() || !part.ok()) return bad_cipher("it ends inside a part");
    const auto body = part.view(part.remaining());
    if (type == kKeyDerivation) {
      IMEX_TRY(cipher.derivation, read_derivation(ByteReader(body)));
    } else if (type == kChunked) {
      IMEX_CHECK_OK(read_chunked(ByteReader(body), data_bytes, cipher));
      ++ciphers;
    } else if (type == kWhole) {
      IMEX_CHECK_OK(read_whole(ByteReader(body), data_bytes, cipher));
      ++ciphers;
    } else {
      return fail(Errc::kUnsupported, fmt::format("encryption of type {}", type));
    }
  }
  if (reader.remaining() != 0 || (count != 0 && ciphers != 1)) {
    return bad_cipher(fmt::format("{} ciphers in {} parts", ciphers, count));
  }
  return cipher;
}

bool prepare_sodium() noexcept {
  static const bool kReady = ::sodium_init() >= 0;
  return kReady;
}

std::array<std::byte, 32> sha256_of(std::span<const std::byte> header,
                                    std::span<const std::byte> data) noexcept {
  crypto_hash_sha256_state state;
  std::array<std::byte, 32> hash{};
  crypto_hash_sha256_init(&state);
  crypto_hash_sha256_update(&state, raw(header.data()), header.size());
  crypto_hash_sha256_update(&state, raw(data.data()), data.size());
  crypto_hash_sha256_final(&state, raw(hash.data()));
  return hash;
}

Result<void> decrypt(const TensorsCipher& cipher, const TensorsKey& key,
                     std::span<const std::byte> stored, std::span<std::byte> out) {
  if (!prepare_sodium()) return fail(Errc::kInternal, "libsodium does not start");
  std::array<std::byte, 24> nonce = cipher.nonce;
  std::size_t at = 0;
  for (const auto& mac : cipher.macs) {
    const std::size_t bytes = std::min<std::uint64_t>(cipher.chunk_bytes, stored.size() - at);
    if (crypto_secretbox_open_detached(raw(out.data() + at), raw(stored.data() + at),
                                       raw(mac.data()), bytes, raw(nonce.data()),
                                       raw(key.bytes().data())) != 0) {
      return fail(Errc::kPermissionDenied, "the key is wrong, or the data was changed");
    }
    sodium_increment(raw(nonce.data()), nonce.size());
    at += bytes;
  }
  if (at != stored.size()) return bad_cipher("its chunks do not cover the data");
  return {};
}

TensorsKey::TensorsKey(std::span<const std::byte, 32> bytes) noexcept {
  std::ranges::copy(bytes, bytes_.begin());
}

TensorsKey::TensorsKey(TensorsKey&& other) noexcept : bytes_(other.bytes_) {
  sodium_memzero(other.bytes_.data(), other.bytes_.size());
}

TensorsKey& TensorsKey::operator=(TensorsKey&& other) noexcept {
  std::swap(bytes_, other.bytes_);  // the other wipes what was here
  return *this;
}

TensorsKey::~TensorsKey() { sodium_memzero(bytes_.data(), bytes_.size()); }

Result<TensorsKey> TensorsKey::from_passphrase(std::string_view passphrase,
                                               const TensorsFile& file) {
  const TensorsKeyDerivation* found = nullptr;
  for (const TensorsEntry& entry : file.entries()) {
    if (!entry.cipher || !entry.cipher->derivation) continue;
    if (found != nullptr && *found != *entry.cipher->derivation) {
      return fail(Errc::kUnsupported, "tensors encrypted with several salts");
    }
    found = &*entry.cipher->derivation;
  }
  if (found == nullptr) {
    return fail(Errc::kFailedPrecondition, "the file was not encrypted with a passphrase",
                "give the key of 32 bytes instead");
  }
  if (found->algorithm != crypto_pwhash_ALG_ARGON2ID13 || found->operations > kOperationsMax ||
      found->memory_bytes > kMemoryBytesMax) {
    return fail(Errc::kUnsupported,
                fmt::format("key derivation by algorithm {} with {} passes over {}",
                            found->algorithm, found->operations, format_size(found->memory_bytes)),
                "read are Argon2id 1.3 up to 64 passes and 4 GiB");
  }
  if (!prepare_sodium()) return fail(Errc::kInternal, "libsodium does not start");
  std::array<std::byte, 32> derived{};
  if (crypto_pwhash(raw(derived.data()), derived.size(), passphrase.data(), passphrase.size(),
                    raw(found->salt.data()), found->operations, found->memory_bytes,
                    found->algorithm) != 0) {
    return fail(Errc::kResourceExhausted,
                fmt::format("derive a key with {}", format_size(found->memory_bytes)));
  }
  TensorsKey key(derived);
  sodium_memzero(derived.data(), derived.size());
  return key;
}

}  // namespace imex::inference
