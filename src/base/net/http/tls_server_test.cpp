#include <fstream>

#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "net/http/client.hpp"
#include "net/http/server.hpp"
#include "os/file.hpp"
#include "test_peer.hpp"

namespace imex::net::http {
namespace {

using ::testing::HasSubstr;

auto shortly() { return std::chrono::steady_clock::now() + kTestPatience; }

using OwnedKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using OwnedCertificate = std::unique_ptr<X509, decltype(&X509_free)>;

/// A little authority that writes PEM files.
class TestAuthority {
 public:
  explicit TestAuthority(std::string folder, const std::string& name)
      : folder_(std::move(folder)),
        name_(name),
        key_(EVP_EC_gen("P-256"), EVP_PKEY_free),
        certificate_(make(name, key_.get(), key_.get(), true), X509_free) {
    write_certificate(path(), certificate_.get());
  }
  [[nodiscard]] std::string path() const { return folder_ + "/" + name_ + ".pem"; }
  /// Writes NAME.pem and NAME.key, for "localhost" and 127.0.0.1.
  void issue(const std::string& name, const std::string& subject) {
    const OwnedKey key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const OwnedCertificate made(make(subject, key.get(), key_.get(), false), X509_free);
    write_certificate(folder_ + "/" + name + ".pem", made.get());
    std::FILE* file = std::fopen((folder_ + "/" + name + ".key").c_str(), "w");
    PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
  }

 private:
  X509* make(const std::string& subject, EVP_PKEY* key, EVP_PKEY* by, bool authority) {
    X509* made = X509_new();
    X509_set_version(made, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(made), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made), 24L * 3600);
    X509_set_pubkey(made, key);
    const auto named = [](X509_NAME* out, const std::string& text) {
      X509_NAME_add_entry_by_txt(out, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1, 0);
    };
    named(X509_get_subject_name(made), subject);
    X509_NAME* issuer = X509_NAME_new();
    named(issuer, name_);
    X509_set_issuer_name(made, issuer);
    X509_NAME_free(issuer);
    const auto extend = [&](int kind, const char* value) {
      X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
      X509_add_ext(made, extension, -1);
      X509_EXTENSION_free(extension);
    };
    extend(NID_basic_constraints, authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (!authority) extend(NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
    X509_sign(made, by, EVP_sha256());
    return made;
  }
  static void write_certificate(const std::string& path, X509* certificate) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
  }

  std::string folder_, name_;
  long serial_ = 0;
  OwnedKey key_;
  OwnedCertificate certificate_;
};

class TlsServerTest : public testing::Test {
 protected:
  TlsServerTest()
      : folder_(*os::make_temporary_directory("imex-https-")),
        ours_(folder_, "ours"),
        other_(folder_, "other") {
    ours_.issue("server", "server");
    ours_.issue("client", "client");
    other_.issue("stranger", "stranger");
  }
  ~TlsServerTest() override { EXPECT_TRUE(os::remove_tree(folder_)); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }

  void serve(bool mutual, bool required = true) {
    TlsFiles files{file("server.pem"), file("server.key"), "", required};
    if (mutual) files.client_authority = ours_.path();
    options_.listeners = {{.address = "127.0.0.1:0", .tls = files}};
    Router router;
    router.add(Method::kPost, "/who", [](const Request& request) {
      return Response::text(200, request.peer.certificate_subject + "|" + request.body);
    });
    router.add(Method::kGet, "/watch", [this](const Request&) {
      auto stream = ResponseStream::create();
      stream.push("event\n");
      stream.on_end([this] { ++ended_; });
      return Response::streamed("text/event-stream", stream);
    });
    auto server = Server::start(options_, std::move(router));
    ASSERT_TRUE(server) << server.error().to_string();
    server_ = std::move(*server);
  }
  std::unique_ptr<Client> client(ClientTls tls) {
    auto made = Client::make(
        {.url = "https://127.0.0.1:" + std::to_string(server_->port()), .tls = std::move(tls)});
    EXPECT_TRUE(made) << made.error().to_string();
    return std::move(*made);
  }
  static Result<ClientResponse> ask(Client& client, std::string body = "x") {
    return client.send({.method = Method::kPost, .path = "/who", .body = std::move(body)},
                       shortly());
  }

  std::string folder_;
  TestAuthority ours_, other_;
  std::atomic<int> ended_ = 0;
  ServerOptions options_;
  std::unique_ptr<Server> server_;
};

TEST_F(TlsServerTest, SpeaksTlsAndKeepsTheConnection) {
  serve(false);
  const auto speaker = client({.authority = ours_.path()});
  for (int i = 0; i < 3; ++i) {
    const std::string body(static_cast<std::size_t>(i) * 200'000, 'b');
    const auto answer = ask(*speaker, body);
    ASSERT_TRUE(answer) << answer.error().to_string();
    EXPECT_EQ(answer->body, "|" + body);
  }
  EXPECT_EQ(server_->counts().connections, 1U);
}

TEST_F(TlsServerTest, AConnectionThatWasClosedWhileIdleIsReplaced) {
  options_.idle_timeout = std::chrono::milliseconds(50);
  serve(false);
  const auto speaker = client({.authority = ours_.path()});
  for (int i = 0; i < 3; ++i) {
    const auto answer = ask(*speaker);  // a POST, which is never sent twice
    ASSERT_TRUE(answer) << answer.error().to_string();
    EXPECT_TRUE(eventually([&] { return server_->counts().connections == 0; }));
  }
}

TEST_F(TlsServerTest, AClientBelievesOnlyWhomItExpects) {
  serve(false);
  const auto wrong_authority = ask(*client({.authority = other_.path()}));
  ASSERT_FALSE(wrong_authority);
  EXPECT_EQ(wrong_authority.error().code, Errc::kPermissionDenied)
      << wrong_authority.error().to_string();
  const auto wrong_name = ask(*client({.authority = ours_.path(), .server_name = "example.org"}));
  ASSERT_FALSE(wrong_name);
  EXPECT_EQ(wrong_name.error().code, Errc::kPermissionDenied) << wrong_name.error().to_string();
  EXPECT_TRUE(ask(*client({.authority = ours_.path(), .server_name = "localhost"})));
  EXPECT_TRUE(ask(*client({.verify = false})));
}

TEST_F(TlsServerTest, MutualTlsNamesTheClientAndRefusesStrangers) {
  serve(true);
  const auto known = ask(*client(
      {.authority = ours_.path(), .certificate = file("client.pem"), .key = file("client.key")}));
  ASSERT_TRUE(known) << known.error().to_string();
  EXPECT_EQ(known->body, "CN=client|x");
  EXPECT_FALSE(ask(*client({.authority = ours_.path()})));
  EXPECT_FALSE(ask(*client({.authority = ours_.path(),
                            .certificate = file("stranger.pem"),
                            .key = file("stranger.key")})));
}

TEST_F(TlsServerTest, ACertificateMayBeOptional) {
  serve(true, false);
  EXPECT_EQ(ask(*client({.authority = ours_.path()}))->body, "|x");
  EXPECT_EQ(ask(*client({.authority = ours_.path(),
                         .certificate = file("client.pem"),
                         .key = file("client.key")}))
                ->body,
            "CN=client|x");
}

TEST_F(TlsServerTest, NewFilesAreUsedAndBadOnesReported) {
  options_.tls_check_interval = std::chrono::milliseconds(1);
  std::atomic<int> problems = 0;
  options_.on_problem = [&](const Error& error) {
    EXPECT_THAT(error.message, HasSubstr("new certificates are not used"));
    ++problems;
  };
  serve(false);
  const auto works = [&](const TestAuthority& authority) {
    return bool(ask(*client({.authority = authority.path()})));
  };
  EXPECT_TRUE(works(ours_));
  std::ofstream(file("server.pem")) << "no certificate";
  EXPECT_TRUE(eventually([&] { return problems > 0; }));
  EXPECT_TRUE(works(ours_));  // with the former one
  other_.issue("server", "server");
  EXPECT_TRUE(eventually([&] { return works(other_); }));
  EXPECT_FALSE(works(ours_));
  EXPECT_TRUE(server_->reload_tls());
}

TEST_F(TlsServerTest, BadFilesAreErrorsAtTheStart) {
  for (const TlsFiles& files :
       {TlsFiles{file("none"), file("server.key"), "", true},
        TlsFiles{file("server.pem"), file("client.key"), "", true},
        TlsFiles{file("server.pem"), file("server.key"), file("none"), true}}) {
    ServerOptions options;
    options.listeners = {{.address = "127.0.0.1:0", .tls = files}};
    const auto server = Server::start(std::move(options), Router());
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().code, Errc::kInvalidArgument) << server.error().to_string();
  }
  EXPECT_FALSE(Client::make({.url = "https://a", .tls = {.authority = file("none")}}));
  EXPECT_FALSE(Client::make({.url = "https://a", .tls = {.certificate = file("client.pem")}}));
}

TEST_F(TlsServerTest, APlainPeerAndASilentOneAreCut) {
  options_.header_timeout = std::chrono::milliseconds(200);
  serve(false);
  TestPeer plain(server_->port());
  plain.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  static_cast<void>(plain.hear_all());  // ends; perhaps with an alert
  TestPeer silent(server_->port());
  EXPECT_EQ(silent.hear_all(), "");
}

TEST_F(TlsServerTest, StreamsNoticeThePeerLeaving) {
  serve(false);
  auto speaker = client({.authority = ours_.path()});
  // The stream never ends: the deadline does, and the client closes the connection.
  const auto answer = speaker->send(
      {.path = "/watch"}, std::chrono::steady_clock::now() + std::chrono::milliseconds(300));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::kDeadlineExceeded) << answer.error().to_string();
  EXPECT_TRUE(eventually([&] { return ended_ == 1; }));
}

}  // namespace
}  // namespace imex::net::http
