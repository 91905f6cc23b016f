#include "net/tls.hpp"

#include <cstdlib>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "os/file.hpp"

namespace imex::net {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Made {
  std::string key, certificate;
};

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<std::size_t>(size));
}

/// A self-signed certificate for "node" that holds for `days` from now (negative: has expired).
Made make_certificate(long days) {
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -10L * 24 * 3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), days * 24 * 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("node"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  std::unique_ptr<BIO, decltype(&BIO_free)> key_out(BIO_new(BIO_s_mem()), BIO_free);
  std::unique_ptr<BIO, decltype(&BIO_free)> certificate_out(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  PEM_write_bio_X509(certificate_out.get(), certificate.get());
  return {text_of(key_out.get()), text_of(certificate_out.get())};
}

class TlsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = os::make_temporary_directory("imex-tls-");
    ASSERT_TRUE(made);
    directory_ = *made;
  }
  void TearDown() override { EXPECT_TRUE(os::remove_tree(directory_)); }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }
  std::string directory_;
};

TEST_F(TlsTest, ReadsFilesAndPathsAndTextOfTheEnvironment) {
  const Made made = make_certificate(30);
  TlsSources sources{PemSource::kFile, file("key", made.key), file("cert", made.certificate),
                     file("ca", made.certificate)};
  auto identity = load_tls_identity(sources);
  ASSERT_TRUE(identity) << identity.error().to_string();
  EXPECT_EQ(identity->key, made.key);
  EXPECT_THAT(identity->subject, HasSubstr("node"));
  EXPECT_GT(identity->expires, std::chrono::system_clock::now() + std::chrono::hours(24 * 29));
  ::setenv("TLS_TEST_KEY", sources.key.c_str(), 1);
  ::setenv("TLS_TEST_CERT", sources.certificate.c_str(), 1);
  ::setenv("TLS_TEST_CA", sources.authority.c_str(), 1);
  const TlsSources named{PemSource::kEnvPath, "TLS_TEST_KEY", "TLS_TEST_CERT", "TLS_TEST_CA"};
  identity = load_tls_identity(named);
  ASSERT_TRUE(identity) << identity.error().to_string();
  EXPECT_EQ(identity->certificate_path, sources.certificate);
  ::setenv("TLS_TEST_KEY", made.key.c_str(), 1);
  ::setenv("TLS_TEST_CERT", made.certificate.c_str(), 1);
  ::setenv("TLS_TEST_CA", made.certificate.c_str(), 1);
  identity =
      load_tls_identity({PemSource::kEnvValue, named.key, named.certificate, named.authority});
  ASSERT_TRUE(identity) << identity.error().to_string();
  EXPECT_EQ(identity->certificate_path, "");
}

TEST_F(TlsTest, RefusesWhatDoesNotFitAndNeverShowsTheKey) {
  const Made made = make_certificate(30), other = make_certificate(30), old = make_certificate(-1);
  const auto load = [&](const Made& key, const Made& certificate, const std::string& authority) {
    return load_tls_identity({PemSource::kFile, file("key", key.key),
                              file("cert", certificate.certificate), file("ca", authority)});
  };
  auto mixed = load(other, made, made.certificate);
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message, HasSubstr("does not belong to"));
  EXPECT_THAT(mixed.error().to_string(), Not(HasSubstr("PRIVATE KEY")));
  EXPECT_THAT(load(old, old, made.certificate).error().message, HasSubstr("expired"));
  EXPECT_THAT(load(made, made, "nothing").error().message, HasSubstr("authority"));
  EXPECT_EQ(load_tls_identity({PemSource::kFile, directory_ + "/none", "b", "c"}).error().code,
            Errc::kNotFound);
  ::unsetenv("TLS_TEST_NONE");
  EXPECT_THAT(load_tls_identity({PemSource::kEnvValue, "TLS_TEST_NONE", "b", "c"}).error().message,
              HasSubstr("TLS_TEST_NONE"));
}

}  // namespace
}  // namespace imex::net
