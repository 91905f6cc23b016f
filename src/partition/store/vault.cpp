#include "vault.hpp"

#include <sys/stat.h>

#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sodium.h>

#include "base/assert.hpp"
#include "os/file.hpp"
#include "partition/model/json_writer.hpp"

namespace imex::partition {
namespace {

static_assert(crypto_secretbox_KEYBYTES == 32);

/// The endpoint's id and then the credentials: one text, so that the seal covers both.
std::string plain_text(const EndpointId& endpoint, const EndpointCredentials& credentials) {
  JsonWriter json;
  json.begin_array().value(endpoint).value(credentials.user).value(credentials.password.reveal());
  json.value(credentials.ca_certificate_path).value(credentials.client_certificate_path);
  return std::move(json.value(credentials.client_key_path).end_array()).text();
}

Result<void> check_private(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return fail(system_error(errno, "stat " + path));
  if ((status.st_mode & 077U) != 0)
    return fail(Errc::kPermissionDenied,
                fmt::format("key file {} has mode {:04o}: others may read it", path,
                            status.st_mode & 07777U),
                "chmod 600 it, and change the credentials if others could have read them");
  return {};
}

}  // namespace

Result<Vault> Vault::open(const std::string& key_file) {
  IMEX_ASSERT(sodium_init() >= 0, "the cipher needs no more than a processor");
  Vault vault;
  auto bytes = os::read_file(key_file, 4096);
  if (bytes) {
    IMEX_CHECK_OK(check_private(key_file));
    if (bytes->size() != vault.key_.size())
      return fail(Errc::kDataLoss,
                  fmt::format("key file {} has {} bytes, not {}", key_file, bytes->size(),
                              vault.key_.size()),
                  "restore it from a backup; without it stored credentials cannot be read");
    std::memcpy(vault.key_.data(), bytes->data(), vault.key_.size());
    sodium_memzero(bytes->data(), bytes->size());
    return vault;
  }
  if (bytes.error().code != Errc::kNotFound) return fail(std::move(bytes).error());
  randombytes_buf(vault.key_.data(), vault.key_.size());
  IMEX_CHECK_OK(os::replace_file(key_file, std::as_bytes(std::span(vault.key_)), 0600));
  return vault;
}

Vault::Vault(Vault&& other) noexcept : key_(other.key_) {
  sodium_memzero(other.key_.data(), other.key_.size());
}

Vault::~Vault() { sodium_memzero(key_.data(), key_.size()); }

std::string Vault::seal(const EndpointId& endpoint, const EndpointCredentials& credentials) const {
  std::string plain = plain_text(endpoint, credentials);
  std::vector<unsigned char> sealed(crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES +
                                    plain.size());
  randombytes_buf(sealed.data(), crypto_secretbox_NONCEBYTES);
  crypto_secretbox_easy(sealed.data() + crypto_secretbox_NONCEBYTES,
                        reinterpret_cast<const unsigned char*>(plain.data()), plain.size(),
                        sealed.data(), key_.data());
  sodium_memzero(plain.data(), plain.size());
  constexpr int kVariant = sodium_base64_VARIANT_ORIGINAL;
  std::string text(sodium_base64_encoded_len(sealed.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), sealed.data(), sealed.size(), kVariant);
  text.pop_back();  // the encoder's terminator
  return text;
}

Result<EndpointCredentials> Vault::unseal(const EndpointId& endpoint,
                                          std::string_view sealed) const {
  const auto damaged = [&] {
    return fail(Errc::kDataLoss,
                fmt::format("credentials of endpoint {} do not open with this key file",
                            endpoint.to_string()),
                "use the key file that they were sealed with, or enter the credentials again");
  };
  std::vector<unsigned char> bytes(sealed.size());
  std::size_t size = 0;
  if (sodium_base642bin(bytes.data(), bytes.size(), sealed.data(), sealed.size(), nullptr, &size,
                        nullptr, sodium_base64_VARIANT_ORIGINAL) != 0 ||
      size < crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES)
    return damaged();
  std::string plain(size - crypto_secretbox_NONCEBYTES - crypto_secretbox_MACBYTES, '\0');
  if (crypto_secretbox_open_easy(reinterpret_cast<unsigned char*>(plain.data()),
                                 bytes.data() + crypto_secretbox_NONCEBYTES,
                                 size - crypto_secretbox_NONCEBYTES, bytes.data(),
                                 key_.data()) != 0)
    return damaged();
  const auto json = nlohmann::json::parse(plain, nullptr, false);
  sodium_memzero(plain.data(), plain.size());
  if (!json.is_array() || json.size() != 6 || json[0] != endpoint.to_string()) return damaged();
  for (const auto& part : json)
    if (!part.is_string()) return damaged();
  EndpointCredentials credentials;
  credentials.user = json[1].get<std::string>();
  credentials.password = log::Secret(json[2].get<std::string>());
  credentials.ca_certificate_path = json[3].get<std::string>();
  credentials.client_certificate_path = json[4].get<std::string>();
  credentials.client_key_path = json[5].get<std::string>();
  return credentials;
}

}  // namespace imex::partition
