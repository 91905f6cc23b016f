/// TLS material as it is on disk now.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/security/credentials.h>

#include "base/result.hpp"
#include "fabric/nmxc.hpp"

namespace imex::fabric::nmxc {

/// PEM texts. The key is a secret; the others are compared only.
struct TlsMaterial {
  std::string authority, certificate;
  log::Secret key;
  friend bool operator==(const TlsMaterial& a, const TlsMaterial& b) {
    return a.authority == b.authority && a.certificate == b.certificate &&
           a.key.reveal() == b.key.reveal();
  }
};

/// Reads what `tls` names. Errors: kNotFound, kPermissionDenied, kInvalidArgument (larger than any
/// certificate chain).
[[nodiscard]] Result<TlsMaterial> read_material(const Tls& tls);

[[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> make_credentials(
    const TlsMaterial& material);

}  // namespace imex::fabric::nmxc
