#include "domain/config.hpp"

#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/file.hpp"

namespace imex::domain {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

LoadedConfig load(std::string_view text, Personality personality = Personality::kNvidiaImex) {
  auto loaded = parse_config(text, "test.cfg", personality);
  EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().to_string());
  return loaded ? *std::move(loaded) : LoadedConfig{};
}

std::string problems(std::string_view text, Personality personality = Personality::kNvidiaImex) {
  const auto loaded = parse_config(text, "test.cfg", personality);
  if (loaded) return "accepted";
  EXPECT_EQ(loaded.error().code, Errc::kInvalidArgument);
  return loaded.error().message;
}

// What the Kubernetes driver renders (imex-service sections 4 and 12.1).
constexpr const char* kKubernetes = R"(# rendered
LOG_LEVEL=4
LOG_FILE_NAME=
STATS_FILE_NAME=/var/log/nvidia-imex-stats.log
LOG_APPEND_TO_LOG=0
LOG_FILE_MAX_SIZE=1024
LOG_MAX_ROTATE_COUNT=10
LOG_USE_SYSLOG=0
DAEMONIZE=0
BIND_INTERFACE_IP=
SERVER_PORT=50000
IMEX_NODE_CONFIG_FILE=/imexd/nodes.cfg
NETWORK_INTERFACE=
IMEX_WAIT_FOR_QUORUM=RECOVERY
IMEX_ENABLE_AUTH_ENCRYPTION=0
IMEX_AUTH_ENCRYPTION_MODE=SSL_TLS
IMEX_AUTH_SOURCE=
IMEX_SERVER_KEY=
IMEX_SERVER_CERT=
IMEX_SERVER_CERT_AUTH=
IMEX_CLIENT_KEY=
IMEX_CLIENT_CERT=
IMEX_CLIENT_CERT_AUTH=
IMEX_SECURITY_TARGET_OVERRIDE=
IMEX_GSS_SERVICE_NAME=host
IMEX_GSS_TIMEOUT_SEC=30
IMEX_GSS_RETRY_INTERVAL_SEC=5
IMEX_GSS_SEC_CONTEXT_LIFETIME_SEC=-1
IMEX_GSS_SHUTDOWN_ON_FAILURE=0
IMEX_CMD_ENABLED=1
IMEX_CMD_BIND_INTERFACE_IP=10.1.2.3
IMEX_CMD_PORT=50005
IMEX_CMD_UNIX_DOMAIN_PATH=
IMEX_NODE_DISCONNECTED_GRACE_TIME=-1
)";

TEST(ConfigTest, TheFileOfTheKubernetesDriverIsTaken) {
  const LoadedConfig loaded = load(kKubernetes);
  const DaemonConfig& c = loaded.config;
  EXPECT_EQ(c.log_file, "");
  EXPECT_FALSE(c.log_append);
  EXPECT_FALSE(c.daemonize);
  EXPECT_EQ(c.log_rotate_count, 10U);
  EXPECT_EQ(c.node_list_path, "/imexd/nodes.cfg");
  EXPECT_TRUE(c.command_enabled);
  EXPECT_EQ(c.command_bind_ip, "10.1.2.3");
  EXPECT_EQ(c.grace, Nanos(-1));
  EXPECT_EQ(c.auth_source, AuthSource::kNone);
  // Its two deviating Kerberos values have no effect, and it is told so.
  EXPECT_THAT(loaded.warnings, ElementsAre(HasSubstr("IMEX_GSS_TIMEOUT_SEC"),
                                           HasSubstr("IMEX_GSS_SHUTDOWN_ON_FAILURE")));
}

TEST(ConfigTest, AnEmptyFileGivesTheDocumentedDefaults) {
  const DaemonConfig c = load("").config;
  EXPECT_EQ(c.log_level, 4);
  EXPECT_EQ(c.log_file, "/var/log/nvidia-imex.log");
  EXPECT_EQ(c.stats_file, "/var/log/nvidia-imex-stats.log");
  EXPECT_TRUE(c.log_append);
  EXPECT_EQ(c.log_max_mb, 1024U);
  EXPECT_TRUE(c.daemonize);
  EXPECT_EQ(c.port, 50000);
  EXPECT_EQ(c.node_list_path, "/etc/nvidia-imex/nodes_config.cfg");
  EXPECT_EQ(c.quorum, Quorum::kRecovery);
  EXPECT_FALSE(c.auth);
  EXPECT_EQ(c.auth_mode, "SSL_TLS");
  EXPECT_TRUE(c.command_enabled);
  EXPECT_EQ(c.command_port, 50005);
  EXPECT_EQ(c.grace, Nanos(-1));
}

TEST(ConfigTest, PersonalitiesDifferByDefaultsThatAFileCanSet) {
  const DaemonConfig nvidia = load("").config, imexd = load("", Personality::kImexd).config;
  EXPECT_FALSE(nvidia.watch_list);
  EXPECT_TRUE(imexd.watch_list);
  EXPECT_EQ(nvidia.list_rule, ListRule::kIdentical);
  EXPECT_EQ(imexd.list_rule, ListRule::kPrefix);
  EXPECT_FALSE(nvidia.assigned_only);
  EXPECT_TRUE(imexd.assigned_only);
  EXPECT_FALSE(nvidia.reload_on_hup);
  EXPECT_TRUE(imexd.reload_on_hup);
  EXPECT_FALSE(nvidia.lease_when_silent);
  EXPECT_TRUE(imexd.lease_when_silent);
  EXPECT_EQ(nvidia.reconnect_window, Nanos(5s));
  EXPECT_FALSE(imexd.daemonize);

  const DaemonConfig c =
      load(
          "IMEX_X_WATCH_LIST=1\nIMEX_X_LIST_RULE=prefix\nIMEX_X_DOMAIN_STATE=assigned\n"
          "IMEX_X_SIGHUP=reload\nIMEX_X_IDENTITY_CHECK=1\nIMEX_X_LEASE_SILENT=1\n"
          "IMEX_X_RECONNECT_WINDOW=500ms\n")
          .config;
  EXPECT_TRUE(c.watch_list && c.assigned_only && c.reload_on_hup && c.reresolve_identity &&
              c.lease_when_silent);
  EXPECT_EQ(c.list_rule, imexd.list_rule);
  EXPECT_EQ(c.reconnect_window, imexd.reconnect_window);
}

TEST(ConfigTest, EveryDocumentedKeyIsKnownOnce) {
  const char* documented[] = {"LOG_LEVEL",
                              "LOG_FILE_NAME",
                              "STATS_FILE_NAME",
                              "LOG_APPEND_TO_LOG",
                              "LOG_FILE_MAX_SIZE",
                              "LOG_MAX_ROTATE_COUNT",
                              "LOG_USE_SYSLOG",
                              "DAEMONIZE",
                              "BIND_INTERFACE_IP",
                              "SERVER_PORT",
                              "IMEX_NODE_CONFIG_FILE",
                              "NETWORK_INTERFACE",
                              "IMEX_WAIT_FOR_QUORUM",
                              "IMEX_ENABLE_AUTH_ENCRYPTION",
                              "IMEX_AUTH_ENCRYPTION_MODE",
                              "IMEX_AUTH_SOURCE",
                              "IMEX_SERVER_KEY",
                              "IMEX_SERVER_CERT",
                              "IMEX_SERVER_CERT_AUTH",
                              "IMEX_CLIENT_KEY",
                              "IMEX_CLIENT_CERT",
                              "IMEX_CLIENT_CERT_AUTH",
                              "IMEX_SECURITY_TARGET_OVERRIDE",
                              "IMEX_GSS_SERVICE_NAME",
                              "IMEX_GSS_TIMEOUT_SEC",
                              "IMEX_GSS_RETRY_INTERVAL_SEC",
                              "IMEX_GSS_SEC_CONTEXT_LIFETIME_SEC",
                              "IMEX_GSS_SHUTDOWN_ON_FAILURE",
                              "IMEX_CMD_ENABLED",
                              "IMEX_CMD_BIND_INTERFACE_IP",
                              "IMEX_CMD_PORT",
                              "IMEX_CMD_UNIX_DOMAIN_PATH",
                              "IMEX_NODE_DISCONNECTED_GRACE_TIME"};
  std::set<std::string> known;
  for (const ConfigValue& value : load("").values) {
    EXPECT_TRUE(known.insert(value.key).second) << value.key;
    EXPECT_EQ(value.source, "default") << value.key;
    EXPECT_FALSE(value.help.empty()) << value.key;
  }
  for (const char* key : documented) EXPECT_TRUE(known.contains(key)) << key;
  for (const std::string& key : known) {
    EXPECT_THAT(config_reference(Personality::kImexd), HasSubstr(key));
  }
}

TEST(ConfigTest, EveryKeyMayBeEmpty) {
  std::string text;
  for (const ConfigValue& value : load("").values) {
    if (value.key == "IMEX_X_CHANNEL0_MODE") continue;  // no empty mode
    text += value.key + "=\n";
  }
  const DaemonConfig c = load(text).config;
  EXPECT_EQ(c.port, 50000);
  EXPECT_EQ(c.node_list_path, "/etc/nvidia-imex/nodes_config.cfg");
  EXPECT_EQ(c.log_file, "");
}

TEST(ConfigTest, UnknownKeysAreWarnedOfAndTolerated) {
  EXPECT_THAT(load("SOMETHING_NEW=3\nSERVER_PORT=50001\n").warnings,
              ElementsAre(HasSubstr("test.cfg:1: SOMETHING_NEW")));
}

TEST(ConfigTest, AllProblemsAreReportedAtOnceWithFileLineAndKey) {
  const std::string text = problems(
      "LOG_LEVEL=7\nSERVER_PORT=0\nIMEX_WAIT_FOR_QUORUM=MOST\nno assignment\n"
      "IMEX_NODE_DISCONNECTED_GRACE_TIME=-2\nIMEX_X_DOMAIN_ID=xyz\nIMEX_X_CHANNEL0_MODE=0888\n");
  EXPECT_THAT(text, HasSubstr("test.cfg:1: LOG_LEVEL"));
  EXPECT_THAT(text, HasSubstr("test.cfg:2: SERVER_PORT"));
  EXPECT_THAT(text, HasSubstr("test.cfg:3: IMEX_WAIT_FOR_QUORUM"));
  EXPECT_THAT(text, HasSubstr("test.cfg:4"));
  EXPECT_THAT(text, HasSubstr("test.cfg:5: IMEX_NODE_DISCONNECTED_GRACE_TIME"));
  EXPECT_THAT(text, HasSubstr("test.cfg:6: IMEX_X_DOMAIN_ID"));
  EXPECT_THAT(text, HasSubstr("test.cfg:7: IMEX_X_CHANNEL0_MODE"));
}

TEST(ConfigTest, StringsHaveUpTo256Characters) {
  EXPECT_EQ(load("LOG_FILE_NAME=" + std::string(256, 'a')).config.log_file.size(), 256U);
  EXPECT_THAT(problems("LOG_FILE_NAME=" + std::string(257, 'a')), HasSubstr("LOG_FILE_NAME"));
}

TEST(ConfigTest, TlsNeedsASourceAndAllSixKeys) {
  const std::string text = problems("IMEX_ENABLE_AUTH_ENCRYPTION=1\nIMEX_SERVER_KEY=k\n");
  EXPECT_THAT(text, HasSubstr("IMEX_AUTH_SOURCE"));
  EXPECT_THAT(text, HasSubstr("IMEX_CLIENT_CERT_AUTH"));
  EXPECT_THAT(text, Not(HasSubstr("IMEX_SERVER_KEY")));
}

constexpr const char* kKeys =
    "IMEX_AUTH_SOURCE=FILE\nIMEX_SERVER_KEY=/k\nIMEX_SERVER_CERT=/c\nIMEX_SERVER_CERT_AUTH=/a\n"
    "IMEX_CLIENT_KEY=/k\nIMEX_CLIENT_CERT=/c\nIMEX_CLIENT_CERT_AUTH=/a\n";

TEST(ConfigTest, ImexdIsSecureByDefaultWhereKeysExist) {
  EXPECT_TRUE(load(kKeys, Personality::kImexd).config.auth);
  EXPECT_FALSE(load(kKeys, Personality::kNvidiaImex).config.auth);
  EXPECT_FALSE(load(std::string(kKeys) + "IMEX_ENABLE_AUTH_ENCRYPTION=0\n", Personality::kImexd)
                   .config.auth);
  EXPECT_FALSE(
      load("IMEX_AUTH_SOURCE=FILE\nIMEX_SERVER_KEY=/k\n", Personality::kImexd).config.auth);
}

TEST(ConfigTest, KerberosParsesSoThatTheStartCanRefuseIt) {
  const DaemonConfig c =
      load("IMEX_ENABLE_AUTH_ENCRYPTION=1\nIMEX_AUTH_ENCRYPTION_MODE=GSS_AUTH_ENCRYPT\n").config;
  EXPECT_TRUE(c.auth);
  EXPECT_TRUE(c.wants_gss());
  EXPECT_FALSE(load("IMEX_AUTH_ENCRYPTION_MODE=GSS_AUTH_ONLY\n").config.wants_gss());
}

TEST(ConfigTest, AnUnknownSecurityModeIsFatalOnlyWithSecurityOn) {
  EXPECT_THAT(problems("IMEX_ENABLE_AUTH_ENCRYPTION=1\nIMEX_AUTH_ENCRYPTION_MODE=ROT13\n"),
              HasSubstr("test.cfg:2: IMEX_AUTH_ENCRYPTION_MODE"));
  EXPECT_THAT(problems("IMEX_ENABLE_AUTH_ENCRYPTION=1\nIMEX_AUTH_ENCRYPTION_MODE=\n"),
              HasSubstr("IMEX_AUTH_ENCRYPTION_MODE"));
  EXPECT_EQ(load("IMEX_AUTH_ENCRYPTION_MODE=ROT13\n").warnings.size(), 1U);
}

TEST(ConfigTest, AHeartbeatTimeoutBelowTwoIntervalsIsRefused) {
  EXPECT_THAT(problems("IMEX_X_HEARTBEAT_TIMEOUT=1500ms\n"), HasSubstr("IMEX_X_HEARTBEAT_TIMEOUT"));
}

TEST(ConfigTest, SourcesTellWhereEachValueCameFrom) {
  for (const ConfigValue& value : load("\n\nSERVER_PORT=51000\n").values) {
    if (value.key == "SERVER_PORT") {
      EXPECT_EQ(value.value, "51000");
      EXPECT_EQ(value.source, "test.cfg:3");
    }
  }
}

TEST(ConfigTest, TheDomainIdComesFromTheFileElseFromTheEnvironment) {
  const auto folder = os::make_temporary_directory("config");
  ASSERT_TRUE(folder);
  const std::string path = *folder + "/a.cfg";
  const auto write = [&](std::string_view text) {
    ASSERT_TRUE(os::replace_file(path, std::as_bytes(std::span(text))));
  };
  const char* env = "00112233-4455-6677-8899-aabbccddeeff";
  ::setenv("COMPUTE_DOMAIN_UUID", env, 1);
  write("IMEX_X_DOMAIN_ID=\n");
  EXPECT_EQ(load_config(path, Personality::kImexd)->config.domain_id, *Uuid::parse(env));
  write("IMEX_X_DOMAIN_ID=11111111-4455-6677-8899-aabbccddeeff\n");
  EXPECT_NE(load_config(path, Personality::kImexd)->config.domain_id, *Uuid::parse(env));
  ::setenv("COMPUTE_DOMAIN_UUID", "tcp://10.0.0.1:80", 1);
  write("");
  const auto loaded = load_config(path, Personality::kImexd);
  EXPECT_FALSE(loaded->config.domain_id);
  EXPECT_THAT(loaded->warnings, ElementsAre(HasSubstr("COMPUTE_DOMAIN_UUID")));
  ::unsetenv("COMPUTE_DOMAIN_UUID");
  ASSERT_TRUE(os::remove_tree(*folder));
  EXPECT_EQ(load_config(path, Personality::kImexd).error().code, Errc::kNotFound);
}

TEST(ConfigTest, TheRunDirectoryFollowsTheStateDirectory) {
  DaemonConfig c;
  c.state_dir = "/tmp/x";
  EXPECT_EQ(run_directory(c, "127.88.0.1"), "/tmp/x/run");
  c.state_dir.clear();
  EXPECT_THAT(run_directory(c, "127.88.0.1"), ::testing::EndsWith("/imex/127.88.0.1"));
}

}  // namespace
}  // namespace imex::domain
