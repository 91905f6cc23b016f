// Mutual TLS between daemons: certificates made by the openssl program, good, of another authority,
// and rotated while the daemons run.

#include <csignal>
#include <cstdlib>

#include <gmock/gmock.h>

#include "cluster.hpp"
#include "os/file.hpp"

namespace imex::test {
namespace {

using domain::PairState;
using testing::HasSubstr;

class Authority {
 public:
  Authority(const TemporaryDirectory& directory, const std::string& name)
      : directory_(directory.path()), name_(name) {
    run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" + name +
        " -keyout " + path(".key") + " -out " + path(".pem"));
  }
  [[nodiscard]] std::string path(const std::string& ending) const {
    return directory_ + "/" + name_ + ending;
  }
  /// A key and certificate for `host`, as HOST.key and HOST.pem in `into`.
  void issue(const std::string& host, const std::string& into) const {
    const std::string base = into + "/node";
    run("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + host + " -keyout " +
        base + ".key.new -out " + base + ".csr");
    run("x509 -req -days 2 -CA " + path(".pem") + " -CAkey " + path(".key") +
        " -CAcreateserial -in " + base + ".csr -out " + base + ".pem.new -extfile " +
        extensions(into, host));
    // As rotation does: key and certificate of one kind as close together as can be.
    ASSERT_TRUE(os::rename_file(base + ".key.new", base + ".key"));
    ASSERT_TRUE(os::rename_file(base + ".pem.new", base + ".pem"));
  }

 private:
  static void run(const std::string& arguments) {
    const std::string command = "openssl " + arguments + " 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  static std::string extensions(const std::string& into, const std::string& host) {
    const std::string text = "subjectAltName=DNS:" + host + "\n";
    EXPECT_TRUE(os::replace_file(into + "/ext", std::as_bytes(std::span(text)), 0600));
    return into + "/ext";
  }
  std::string directory_, name_;
};

/// Every node's certificate is for the name that stands for the whole domain.
constexpr const char* kDomainName = "imex.example";

void secure(TestDaemon& daemon, const Authority& trusted) {
  const std::string base = daemon.directory() + "/node";
  daemon.keys["IMEX_ENABLE_AUTH_ENCRYPTION"] = "1";
  daemon.keys["IMEX_AUTH_ENCRYPTION_MODE"] = "SSL_TLS";
  daemon.keys["IMEX_AUTH_SOURCE"] = "FILE";
  for (const std::string side : {"SERVER", "CLIENT"}) {
    daemon.keys["IMEX_" + side + "_KEY"] = base + ".key";
    daemon.keys["IMEX_" + side + "_CERT"] = base + ".pem";
    daemon.keys["IMEX_" + side + "_CERT_AUTH"] = trusted.path(".pem");
  }
  daemon.keys["IMEX_SECURITY_TARGET_OVERRIDE"] = kDomainName;
}

TEST(DaemonTls, CertificatesOfOneAuthorityConnect) {
  Cluster cluster(2);
  const Authority authority(cluster.directory(), "ca");
  for (std::size_t i = 0; i < 2; ++i) {
    authority.issue(kDomainName, cluster[i].directory());
    secure(cluster[i], authority);
  }
  cluster.start();
  EXPECT_TRUE(cluster.wait_up()) << cluster[0].log();
}

TEST(DaemonTls, MaterialMayComeFromTheEnvironment) {
  Cluster cluster(2);
  const Authority authority(cluster.directory(), "ca");
  for (std::size_t i = 0; i < 2; ++i) {
    authority.issue(kDomainName, cluster[i].directory());
    secure(cluster[i], authority);
  }
  const auto text = [](const std::string& path) { return os::read_file(path).value(); };
  TestDaemon& by_value = cluster[0];
  TestDaemon& by_path = cluster[1];
  by_value.keys["IMEX_AUTH_SOURCE"] = "ENV_VAL";
  by_path.keys["IMEX_AUTH_SOURCE"] = "ENV_PATH";
  for (const std::string key : {"SERVER_KEY", "SERVER_CERT", "SERVER_CERT_AUTH", "CLIENT_KEY",
                                "CLIENT_CERT", "CLIENT_CERT_AUTH"}) {
    by_value.environment["T_" + key] = text(by_value.keys["IMEX_" + key]);
    by_value.keys["IMEX_" + key] = "T_" + key;
    by_path.environment["T_" + key] = by_path.keys["IMEX_" + key];
    by_path.keys["IMEX_" + key] = "T_" + key;
  }
  cluster.start();
  EXPECT_TRUE(cluster.wait_up()) << cluster[0].log();
}

TEST(DaemonTls, Section18_14_AnotherAuthorityIsRefusedUntilTheCertificateIsReplaced) {
  Cluster cluster(2);
  const Authority authority(cluster.directory(), "ca"), stranger(cluster.directory(), "stranger");
  authority.issue(kDomainName, cluster[0].directory());
  stranger.issue(kDomainName, cluster[1].directory());
  for (std::size_t i = 0; i < 2; ++i) secure(cluster[i], authority);
  cluster.start();
  const auto refused = [](const StatusReport& report) {
    return report.peers[1].attempts >= 3 && !report.peers[1].last_error.empty();
  };
  ASSERT_TRUE(cluster[0].wait_status(refused));
  EXPECT_NE(cluster[0].status()->peers[1].state, PairState::kConnected);
  EXPECT_NE(cluster[1].status()->peers[0].state, PairState::kConnected);
  authority.issue(kDomainName, cluster[1].directory());
  cluster[1].kill(SIGUSR1);
  EXPECT_TRUE(cluster.wait_up()) << cluster[1].log();
}

TEST(DaemonTls, ACertificateForAnotherNameIsRefused) {
  Cluster cluster(2);
  const Authority authority(cluster.directory(), "ca");
  authority.issue(kDomainName, cluster[0].directory());
  authority.issue("other.example", cluster[1].directory());
  for (std::size_t i = 0; i < 2; ++i) secure(cluster[i], authority);
  cluster.start();
  ASSERT_TRUE(cluster[1].wait_pair(0, PairState::kConnected));  // node 0's name is right
  EXPECT_NE(cluster[0].status()->peers[1].state, PairState::kConnected);
}

TEST(DaemonTls, AMissingCertificateIsExit74) {
  Cluster cluster(1);
  const Authority authority(cluster.directory(), "ca");
  secure(cluster[0], authority);
  cluster[0].spawn();
  EXPECT_EQ(cluster[0].wait_exit(), 74);
}

}  // namespace
}  // namespace imex::test
