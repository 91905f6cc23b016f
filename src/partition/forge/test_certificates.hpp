/// Certificates for tests: an authority made on the spot, and what it signs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace imex::partition::forge {

class TestAuthority {
 public:
  struct Pair {
    std::string key, certificate;  ///< PEM
  };

  explicit TestAuthority(const std::string& name) : key_(EVP_EC_gen("P-256"), EVP_PKEY_free) {
    certificate_ = make(name, key_.get(), {"critical,CA:TRUE"}, {});
  }
  [[nodiscard]] std::string pem() const { return certificate_pem(certificate_.get()); }
  /// "DNS:localhost,IP:127.0.0.1", "URI:spiffe://..."; may be empty.
  [[nodiscard]] Pair issue(const std::string& common_name, const std::string& names) const {
    const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const Certificate made = make(common_name, key.get(), {}, names);
    return {key_pem(key.get()), certificate_pem(made.get())};
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

  Certificate make(const std::string& name, EVP_PKEY* key, const std::string& constraints,
                   const std::string& names) const {
    Certificate made(X509_new(), X509_free);
    static long serial = 1;
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 24L * 3600);
    X509_set_pubkey(made.get(), key);
    if (!name.empty()) {
      X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    }
    const bool self = certificate_ == nullptr;
    X509_set_issuer_name(made.get(), X509_get_subject_name(self ? made.get() : certificate_.get()));
    if (!constraints.empty()) extend(made.get(), NID_basic_constraints, constraints);
    if (!names.empty()) extend(made.get(), NID_subject_alt_name, names);
    X509_sign(made.get(), key_.get(), EVP_sha256());
    return made;
  }
  static void extend(X509* certificate, int nid, const std::string& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  static std::string text_of(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return text;
  }
  static std::string key_pem(EVP_PKEY* key) {
    BIO* const out = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
    return text_of(out);
  }
  static std::string certificate_pem(X509* certificate) {
    BIO* const out = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(out, certificate);
    return text_of(out);
  }

  Key key_;
  Certificate certificate_{nullptr, X509_free};
};

}  // namespace imex::partition::forge
