/// Tensorizer's `.tensors`, versions 1 to 4, plain and encrypted.
///
///     IMEX_TRY(const auto file, TensorsFile::open("model.tensors"));
///     IMEX_TRY(const auto key, TensorsKey::from_passphrase("...", file));   // if encrypted()
///     IMEX_TRY(const auto weights, file.read(file.entries()[0], &key));
///
/// Opening checks the table at the front and every record against it, at a cost linear in the
/// number of tensors; data is touched only by read() and verify(). Nothing in such a file is
/// aligned, and who truncates it while it is open turns reads beyond its new end into SIGBUS.
///
/// Tensorizer writes a CRC-32 and a SHA-256 with each record of a plain file and a SHA-256 in
/// encrypted ones; none is required. What read() returns of an encrypted file is authentic without
/// them (each chunk has its Poly1305 tag) but its names, shapes and the order of chunks of
/// different tensors are not, unless there is a hash. Plain data is only as good as its hashes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inference/format/tensor.hpp"
#include "os/memory.hpp"

namespace imex::inference {

class TensorsFile;

/// How a passphrase becomes a key: libsodium's crypto_pwhash.
struct TensorsKeyDerivation {
  std::uint64_t operations = 0, memory_bytes = 0;
  std::int32_t algorithm = 0;
  std::array<std::byte, 16> salt{};

  friend bool operator==(const TensorsKeyDerivation&, const TensorsKeyDerivation&) = default;
};

/// 32 secret bytes; wiped when destroyed.
class TensorsKey {
 public:
  explicit TensorsKey(std::span<const std::byte, 32> bytes) noexcept;
  TensorsKey(TensorsKey&& other) noexcept;
  TensorsKey& operator=(TensorsKey&& other) noexcept;
  ~TensorsKey();

  /// Derives once for the whole file. By default libsodium's "moderate" cost: half a second and
  /// 256 MiB. Errors: kFailedPrecondition (the file was not encrypted with a passphrase),
  /// kUnsupported (cost above 4 GiB or 64 passes, another algorithm), kResourceExhausted.
  [[nodiscard]] static Result<TensorsKey> from_passphrase(std::string_view passphrase,
                                                          const TensorsFile& file);
  [[nodiscard]] const std::array<std::byte, 32>& bytes() const noexcept { return bytes_; }

 private:
  std::array<std::byte, 32> bytes_{};
};

/// How the data of one record is encrypted: XSalsa20-Poly1305, in one piece or in chunks.
struct TensorsCipher {
  std::uint64_t chunk_bytes = 0;
  std::array<std::byte, 24> nonce{};            ///< of the first chunk; counts up
  std::vector<std::array<std::byte, 16>> macs;  ///< one per chunk
  std::optional<TensorsKeyDerivation> derivation;
};

struct TensorsEntry {
  enum class Kind : std::uint8_t { kParameter, kBuffer, kState };
  Tensor tensor;  ///< bytes as stored: encrypted in encrypted files, empty for metadata-only ones
  Kind kind = Kind::kParameter;
  std::uint16_t module_index = 0;
  std::uint64_t data_bytes = 0;  ///< of the plain data, also where nothing is stored
  bool zeros = false;            ///< metadata only: loads as zeros
  std::optional<std::uint32_t> crc32;
  std::optional<std::array<std::byte, 32>> sha256;
  std::vector<std::byte> hashed_header;  ///< what the hashes cover in front of the data
  std::optional<TensorsCipher> cipher;
};

/// Immutable after opening.
class TensorsFile {
 public:
  /// Errors: those of os::map_file and of parse().
  [[nodiscard]] static Result<TensorsFile> open(const std::string& path);
  /// Borrows `bytes`. Errors: kDataLoss, kUnsupported (version, flags, element type, compression).
  [[nodiscard]] static Result<TensorsFile> parse(std::span<const std::byte> bytes);

  [[nodiscard]] std::uint32_t version() const noexcept { return version_; }
  [[nodiscard]] bool encrypted() const noexcept { return encrypted_; }
  [[nodiscard]] const std::vector<TensorsEntry>& entries() const noexcept { return entries_; }
  [[nodiscard]] const TensorsEntry* find(std::string_view name) const noexcept;

  /// Plain data into `out`, which has exactly entry.data_bytes; hashes are verified. Threads may
  /// read different entries at once. Errors: kFailedPrecondition (a key for a plain file or none
  /// for an encrypted one), kPermissionDenied (wrong key, or the data was changed), kDataLoss (a
  /// hash differs).
  [[nodiscard]] Result<void> read(const TensorsEntry& entry, const TensorsKey* key,
                                  std::span<std::byte> out) const;
  /// Compares the data of a plain file with all its hashes, where it lies. Errors: kDataLoss (one
  /// differs), kFailedPrecondition (there is none, or the file is encrypted).
  [[nodiscard]] Result<void> verify(const TensorsEntry& entry) const;

 private:
  os::Mapping mapping_;  // empty for parse()
  std::uint32_t version_ = 0;
  bool encrypted_ = false;
  std::vector<TensorsEntry> entries_;
};

}  // namespace imex::inference
