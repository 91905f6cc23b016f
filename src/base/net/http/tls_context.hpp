/// OpenSSL contexts for servers and clients. Not for other rooms: names OpenSSL.
#pragma once

#include <memory>
#include <string>

#include <openssl/ssl.h>

#include "net/http/client.hpp"
#include "net/http/server.hpp"

namespace imex::net::http {

using TlsContext = std::shared_ptr<SSL_CTX>;

/// Errors: kNotFound, kPermissionDenied, kInvalidArgument (names the file and what is wrong).
[[nodiscard]] Result<TlsContext> make_server_context(const TlsFiles& files);
[[nodiscard]] Result<TlsContext> make_client_context(const ClientTls& tls);

/// RFC 2253 subject of the peer's verified certificate; empty if there is none.
[[nodiscard]] std::string peer_subject(const SSL* connection);

/// The oldest entry of OpenSSL's queue of this thread in words; clears the queue.
[[nodiscard]] std::string tls_problem();

/// Changes whenever one of the files was written or replaced; empty if one cannot be read.
[[nodiscard]] std::string fingerprint(const TlsFiles& files);

}  // namespace imex::net::http
