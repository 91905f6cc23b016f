#include "tls_context.hpp"

#include <sys/stat.h>

#include <array>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509.h>

namespace imex::net::http {

namespace {

// The protocol that clients which negotiate expect to be named.
constexpr std::string_view kAlpn = "\x08http/1.1";

int choose_alpn(SSL* /*connection*/, const unsigned char** out, unsigned char* out_bytes,
                const unsigned char* offered, unsigned offered_bytes, void* /*unused*/) {
  unsigned char* chosen = nullptr;
  const auto* ours = reinterpret_cast<const unsigned char*>(kAlpn.data());
  if (SSL_select_next_proto(&chosen, out_bytes, ours, static_cast<unsigned>(kAlpn.size()), offered,
                            offered_bytes) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

/// Never asks for a pass phrase: a daemon has no terminal.
int no_phrase(char*, int, int, void*) { return -1; }

Result<TlsContext> make_context(const SSL_METHOD* method) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(method), SSL_CTX_free);
  if (!context) return fail(Errc::kInternal, "make a TLS context: " + tls_problem());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_CIPHER_SERVER_PREFERENCE |
                                         SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_default_passwd_cb(context.get(), no_phrase);
  return context;
}

Result<void> use_identity(SSL_CTX* context, const std::string& certificate,
                          const std::string& key) {
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    return fail(Errc::kInvalidArgument,
                fmt::format("certificate {}: {}", certificate, tls_problem()));
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return fail(Errc::kInvalidArgument, fmt::format("private key {}: {}", key, tls_problem()),
                fmt::format("it must be unencrypted PEM and belong to {}", certificate));
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return fail(Errc::kInvalidArgument,
                fmt::format("private key {} does not belong to certificate {}: {}", key,
                            certificate, tls_problem()));
  }
  return {};
}

Result<void> use_authority(SSL_CTX* context, const std::string& authority) {
  if (SSL_CTX_load_verify_file(context, authority.c_str()) == 1) return {};
  return fail(Errc::kInvalidArgument, fmt::format("authority {}: {}", authority, tls_problem()));
}

}  // namespace

std::string tls_problem() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* reason = ERR_reason_error_string(code);
  if (reason != nullptr) return reason;
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

Result<TlsContext> make_server_context(const TlsFiles& files) {
  IMEX_TRY(TlsContext context, make_context(TLS_server_method()));
  IMEX_CHECK_OK(use_identity(context.get(), files.certificate, files.key));
  SSL_CTX_set_alpn_select_cb(context.get(), choose_alpn, nullptr);
  // Sessions hold what was verified; they must not outlive a change of the authority.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  if (files.client_authority.empty()) return context;
  IMEX_CHECK_OK(use_authority(context.get(), files.client_authority));
  SSL_CTX_set_client_CA_list(context.get(),
                             SSL_load_client_CA_file(files.client_authority.c_str()));
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
  SSL_CTX_set_verify(
      context.get(),
      SSL_VERIFY_PEER | (files.client_certificate_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
      nullptr);
  return context;
}

Result<TlsContext> make_client_context(const ClientTls& tls) {
  IMEX_TRY(TlsContext context, make_context(TLS_client_method()));
  if (tls.certificate.empty() != tls.key.empty()) {
    return fail(Errc::kInvalidArgument,
                "TLS: a certificate needs its key and a key its certificate");
  }
  if (!tls.certificate.empty()) {
    IMEX_CHECK_OK(use_identity(context.get(), tls.certificate, tls.key));
  }
  if (!tls.verify) return context;
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (!tls.authority.empty()) {
    IMEX_CHECK_OK(use_authority(context.get(), tls.authority));
  } else if (SSL_CTX_set_default_verify_paths(context.get()) != 1) {
    return fail(Errc::kNotFound, "the system's authorities: " + tls_problem());
  }
  return context;
}

std::string peer_subject(const SSL* connection) {
  if (SSL_get_verify_result(connection) != X509_V_OK) return {};
  const X509* certificate = SSL_get0_peer_certificate(connection);
  if (certificate == nullptr) return {};
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  X509_NAME_print_ex(out.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

std::string fingerprint(const TlsFiles& files) {
  std::string text;
  for (const std::string* path : {&files.certificate, &files.key, &files.client_authority}) {
    if (path->empty()) continue;
    struct stat found{};
    if (::stat(path->c_str(), &found) != 0) return {};
    text += fmt::format("{}.{}.{}.{}.{};", found.st_dev, found.st_ino, found.st_size,
                        found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
  }
  return text;
}

}  // namespace imex::net::http
