/// An authority and what it signs, made in the test.
#pragma once

#include <memory>
#include <string>

#include <openssl/evp.h>
#include <openssl/x509.h>

namespace imex::fabric::nmxc::testing {

struct KeyPair {
  std::string certificate, key;  ///< PEM
};

class Authority {
 public:
  explicit Authority(const std::string& name);
  [[nodiscard]] const std::string& pem() const noexcept { return pem_; }
  /// For this DNS name; an empty one for a client.
  [[nodiscard]] KeyPair issue(const std::string& dns_name) const;

 private:
  std::shared_ptr<EVP_PKEY> key_;
  std::shared_ptr<X509> certificate_;
  std::string pem_;
};

}  // namespace imex::fabric::nmxc::testing
