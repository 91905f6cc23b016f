#include "credentials.hpp"

#include "os/file.hpp"

namespace imex::fabric::nmxc {
namespace {

constexpr std::size_t kPemBytesMax = std::size_t{1} << 20U;

Result<std::string> read_pem(const log::Secret& inline_text, const std::string& path,
                             std::string_view what) {
  if (!inline_text.empty()) return inline_text.reveal();
  if (path.empty()) return std::string();
  auto text = os::read_file(path, kPemBytesMax);
  if (!text) return fail(std::move(text).error().context(what));
  return text;
}

}  // namespace

Result<TlsMaterial> read_material(const Tls& tls) {
  TlsMaterial material;
  IMEX_TRY(material.authority,
           read_pem(tls.authority, tls.authority_file, "authority of the fabric controller"));
  IMEX_TRY(material.certificate,
           read_pem(tls.certificate, tls.certificate_file, "client certificate"));
  IMEX_TRY(std::string key, read_pem(tls.key, tls.key_file, "client key"));
  material.key = log::Secret(std::move(key));
  return material;
}

std::shared_ptr<grpc::ChannelCredentials> make_credentials(const TlsMaterial& material) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = material.authority;  // empty: the system's
  options.pem_cert_chain = material.certificate;
  options.pem_private_key = material.key.reveal();
  return grpc::SslCredentials(options);
}

}  // namespace imex::fabric::nmxc
