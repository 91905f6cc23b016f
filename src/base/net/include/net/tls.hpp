/// Keys and certificates of one side of a connection: where they come from, whether they fit, until
/// when they hold.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace imex::net {

enum class PemSource : std::uint8_t {
  kFile,      ///< the value is a path
  kEnvPath,   ///< the value names a variable that holds a path
  kEnvValue,  ///< the value names a variable that holds the PEM text itself
};

struct TlsSources {
  PemSource source = PemSource::kFile;
  std::string key, certificate, authority;
};

/// Checked material. `key_path` and its fellows are empty with kEnvValue, whose text cannot change
/// while the process lives.
struct TlsIdentity {
  std::string key, certificate, authority;  ///< PEM; the key is never logged
  std::string key_path, certificate_path, authority_path;
  std::string subject;                            ///< of the certificate, for logs
  std::chrono::system_clock::time_point expires;  ///< of the first certificate
};

/// Reads all three and checks that they parse, that the key belongs to the certificate and that it
/// is not expired. Errors: kNotFound, kPermissionDenied, kInvalidArgument (names what does not
/// fit).
[[nodiscard]] Result<TlsIdentity> load_tls_identity(const TlsSources& sources);

}  // namespace imex::net
