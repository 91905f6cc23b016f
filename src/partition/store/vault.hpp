/// Seals credentials before they reach the database (libsodium secretbox).
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "partition/store/reconciler_store.hpp"

namespace imex::partition {

/// Holds the key; wipes it when destroyed. Thread-safe after construction.
class Vault {
 public:
  /// Reads the key file, or makes it (32 random bytes, mode 0600). Errors: kPermissionDenied
  /// (others may read it), kDataLoss (wrong size).
  [[nodiscard]] static Result<Vault> open(const std::string& key_file);
  Vault(Vault&& other) noexcept;
  Vault& operator=(Vault&&) = delete;
  ~Vault();

  /// Bound to the endpoint: text sealed for one opens for no other.
  [[nodiscard]] std::string seal(const EndpointId& endpoint,
                                 const EndpointCredentials& credentials) const;
  /// Errors: kDataLoss (another key, another endpoint, or changed).
  [[nodiscard]] Result<EndpointCredentials> unseal(const EndpointId& endpoint,
                                                   std::string_view sealed) const;

 private:
  Vault() = default;
  std::array<unsigned char, 32> key_{};
};

}  // namespace imex::partition
