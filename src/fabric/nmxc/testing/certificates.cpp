#include "certificates.hpp"

#include <atomic>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace imex::fabric::nmxc::testing {
namespace {

std::string text_of_bio(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

std::shared_ptr<X509> make_certificate_for(EVP_PKEY* key, const std::string& name) {
  static std::atomic<long> serial{1};
  std::shared_ptr<X509> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3'600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 86'400);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

std::string pem_of(X509* certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(out.get(), certificate);
  return text_of_bio(out.get());
}

std::shared_ptr<EVP_PKEY> new_key() { return {EVP_EC_gen("P-256"), EVP_PKEY_free}; }

}  // namespace

Authority::Authority(const std::string& name)
    : key_(new_key()), certificate_(make_certificate_for(key_.get(), name)) {
  X509_set_issuer_name(certificate_.get(), X509_get_subject_name(certificate_.get()));
  add_extension(certificate_.get(), certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(certificate_.get(), key_.get(), EVP_sha256());
  pem_ = pem_of(certificate_.get());
}

KeyPair Authority::issue(const std::string& dns_name) const {
  const std::shared_ptr<EVP_PKEY> key = new_key();
  const std::shared_ptr<X509> certificate =
      make_certificate_for(key.get(), dns_name.empty() ? "client" : dns_name);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get()));
  if (!dns_name.empty())
    add_extension(certificate.get(), certificate_.get(), NID_subject_alt_name, "DNS:" + dns_name);
  X509_sign(certificate.get(), key_.get(), EVP_sha256());
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_PrivateKey(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {pem_of(certificate.get()), text_of_bio(out.get())};
}

}  // namespace imex::fabric::nmxc::testing
