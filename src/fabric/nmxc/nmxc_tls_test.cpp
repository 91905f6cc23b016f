// Plaintext, TLS, mutual TLS, and files that change.
#include "os/file.hpp"
#include "testing/certificates.hpp"
#include "testing/kit.hpp"

namespace imex::fabric::nmxc {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the kit of this room

std::shared_ptr<grpc::ServerCredentials> server_side(const KeyPair& server,
                                                     const std::string& client_authority = {}) {
  grpc::SslServerCredentialsOptions options(
      client_authority.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                               : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({server.key, server.certificate});
  options.pem_root_certs = client_authority;
  return grpc::SslServerCredentials(options);
}

class NmxcTlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = os::make_temporary_directory("imex-nmxc-tls");
    ASSERT_TRUE(folder);
    folder_ = *folder;
  }
  void TearDown() override { static_cast<void>(os::remove_tree(folder_)); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    EXPECT_TRUE(os::replace_file(path, std::as_bytes(std::span(text))));
    return path;
  }
  [[nodiscard]] static Options tls_options(const FakeController& controller,
                                           const std::string& authority_file) {
    Options options = options_for({controller.url("https")});
    options.tls.authority_file = authority_file;
    options.tls.server_name = "nmx.rack-1";
    return options;
  }

  std::string folder_;
  Authority authority_{"fabric authority"};
  KeyPair server_ = authority_.issue("nmx.rack-1");
};

TEST_F(NmxcTlsTest, TheServerIsVerifiedByTheConfiguredName) {
  FakeController controller({.credentials = server_side(server_)});
  Options options = tls_options(controller, write("ca.pem", authority_.pem()));
  EXPECT_TRUE(open_or_die(options)->observe(patient()));

  options.tls.server_name = "nmx.rack-2";
  const auto wrong_name = open_or_die(options)->observe(patient());
  ASSERT_FALSE(wrong_name);
  EXPECT_EQ(wrong_name.error().error.code, Errc::kUnavailable);

  options.tls.server_name = "nmx.rack-1";
  options.tls.authority_file = write("other.pem", Authority("another").pem());
  EXPECT_FALSE(open_or_die(options)->observe(patient()));
  EXPECT_FALSE(open_or_die(options_for({controller.url("http")}))->observe(patient()))
      << "plaintext to a TLS port";
}

TEST_F(NmxcTlsTest, MutualTlsTakesFilesOrSealedText) {
  FakeController controller({.credentials = server_side(server_, authority_.pem())});
  Options options = tls_options(controller, write("ca.pem", authority_.pem()));
  EXPECT_FALSE(open_or_die(options)->observe(patient())) << "without a client certificate";

  const KeyPair client = authority_.issue("");
  options.tls.certificate_file = write("client.pem", client.certificate);
  options.tls.key_file = write("client.key", client.key);
  EXPECT_TRUE(open_or_die(options)->observe(patient()));

  Options sealed = options_for({controller.url("https")});
  sealed.tls.server_name = "nmx.rack-1";
  sealed.tls.authority = log::Secret(authority_.pem());
  sealed.tls.certificate = log::Secret(client.certificate);
  sealed.tls.key = log::Secret(client.key);
  EXPECT_TRUE(open_or_die(sealed)->observe(patient()));
}

TEST_F(NmxcTlsTest, AMissingFileIsNamedAtTheStart) {
  Options options = options_for({"https://127.0.0.1:1"});
  options.tls.authority_file = folder_ + "/nowhere.pem";
  const auto manager = open(options);
  ASSERT_FALSE(manager);
  EXPECT_EQ(manager.error().code, Errc::kNotFound);
  EXPECT_NE(manager.error().message.find("nowhere.pem"), std::string::npos);
}

TEST_F(NmxcTlsTest, FilesAreReadAgainForEachConnection) {
  FakeController controller({.credentials = server_side(server_, authority_.pem())});
  const KeyPair stranger = Authority("another").issue("");
  Options options = tls_options(controller, write("ca.pem", authority_.pem()));
  options.tls.certificate_file = write("client.pem", stranger.certificate);
  options.tls.key_file = write("client.key", stranger.key);
  const auto manager = open_or_die(options);
  EXPECT_FALSE(manager->observe(patient()));
  const KeyPair client = authority_.issue("");
  write("client.pem", client.certificate);
  write("client.key", client.key);
  EXPECT_TRUE(eventually([&] { return manager->observe(patient()).has_value(); }));
}

TEST_F(NmxcTlsTest, AWatchedConnectionIsReplacedWhenFilesChange) {
  FakeController controller({.credentials = server_side(server_)});
  EventLog log;
  const auto manager = open_or_die(tls_options(controller, write("ca.pem", authority_.pem())));
  manager->watch(log.handler());
  ASSERT_TRUE(log.comes(FabricEvent::Kind::kGap));
  const int before = controller.calls("Hello");
  write("ca.pem", authority_.pem() + Authority("next").pem());
  EXPECT_TRUE(eventually([&] { return controller.calls("Hello") > before; }));
  EXPECT_TRUE(manager->observe(patient()));
  manager->watch(nullptr);
}

}  // namespace
}  // namespace imex::fabric::nmxc
