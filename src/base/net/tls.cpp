#include "net/tls.hpp"

#include <cstdlib>
#include <ctime>
#include <memory>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "os/file.hpp"

namespace imex::net {

namespace {

constexpr std::size_t kPemBytesMax = 1U << 20U;

struct Free {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

struct Text {
  std::string pem, path;
};

Result<std::string> variable(const std::string& name, const char* what) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') {
    return fail(Errc::kNotFound,
                fmt::format("{}: environment variable '{}' is not set", what, name));
  }
  return std::string(value);
}

Result<Text> read_text(PemSource source, const std::string& value, const char* what) {
  if (value.empty()) return fail(Errc::kInvalidArgument, fmt::format("{}: no source given", what));
  Text text;
  if (source == PemSource::kEnvValue) {
    IMEX_TRY(text.pem, variable(value, what));
    return text;
  }
  text.path = value;
  if (source == PemSource::kEnvPath) {
    IMEX_TRY(text.path, variable(value, what));
  }
  auto pem = os::read_file(text.path, kPemBytesMax);
  if (!pem) return fail(std::move(pem).error().context(what));
  text.pem = std::move(*pem);
  return text;
}

Owned<BIO> reader(const std::string& pem) {
  return Owned<BIO>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

Result<Owned<X509>> parse_certificate(const Text& text, const char* what) {
  Owned<X509> certificate(PEM_read_bio_X509(reader(text.pem).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (certificate) return certificate;
  return fail(Errc::kInvalidArgument,
              fmt::format("{} {}: not a certificate in PEM form", what, text.path));
}

/// Never asks for a pass phrase: a daemon has no terminal.
int no_pass_phrase(char*, int, int, void*) { return -1; }

Result<Owned<EVP_PKEY>> parse_key(const Text& text) {
  Owned<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(reader(text.pem).get(), nullptr, no_pass_phrase, nullptr));
  ERR_clear_error();
  if (key) return key;
  return fail(Errc::kInvalidArgument,
              fmt::format("private key {}: not an unencrypted key in PEM form", text.path));
}

std::chrono::system_clock::time_point expiry(const X509* certificate) {
  std::tm when{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &when) != 1) return {};
  return std::chrono::system_clock::from_time_t(::timegm(&when));
}

std::string subject(const X509* certificate) {
  Owned<BIO> out(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(out.get(), X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

}  // namespace

Result<TlsIdentity> load_tls_identity(const TlsSources& sources) {
  IMEX_TRY(Text key_text, read_text(sources.source, sources.key, "private key"));
  IMEX_TRY(Text certificate_text, read_text(sources.source, sources.certificate, "certificate"));
  IMEX_TRY(Text authority_text, read_text(sources.source, sources.authority, "authority"));
  IMEX_TRY(const Owned<EVP_PKEY> key, parse_key(key_text));
  IMEX_TRY(const Owned<X509> certificate, parse_certificate(certificate_text, "certificate"));
  IMEX_CHECK_OK([&]() -> Result<void> {
    IMEX_TRY([[maybe_unused]] const Owned<X509> authority,
             parse_certificate(authority_text, "authority"));
    return {};
  }());
  const bool fits = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return fail(Errc::kInvalidArgument,
                fmt::format("private key {} does not belong to certificate {}", key_text.path,
                            certificate_text.path));
  }
  TlsIdentity identity{std::move(key_text.pem),          std::move(certificate_text.pem),
                       std::move(authority_text.pem),    std::move(key_text.path),
                       std::move(certificate_text.path), std::move(authority_text.path),
                       subject(certificate.get()),       expiry(certificate.get())};
  if (identity.expires <= std::chrono::system_clock::now()) {
    return fail(Errc::kInvalidArgument, fmt::format("certificate {} ({}) has expired",
                                                    identity.certificate_path, identity.subject));
  }
  return identity;
}

}  // namespace imex::net
