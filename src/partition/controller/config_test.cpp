#include "partition/controller/config.hpp"

#include <gtest/gtest.h>

namespace imex::partition {
namespace {

using namespace std::chrono_literals;

ControllerConfig parsed(std::string_view text) {
  auto config = parse_controller_config(text, "c.toml");
  EXPECT_TRUE(config) << (config ? "" : config.error().to_string());
  return config.value_or(ControllerConfig{});
}
std::string problem(std::string_view text) {
  const auto config = parse_controller_config(text, "c.toml");
  return config ? "" : config.error().message;
}

TEST(ControllerConfigTest, KeysOfNicoAreRead) {
  const ControllerConfig config = parsed(R"(
[nvlink_config]
enabled = false
monitor_run_interval = "2m"
allow_insecure = false
nmx_c_tls_ca_cert_path = "/ca.pem"
nmx_c_tls_client_cert_path = "/c.pem"
nmx_c_tls_client_key_path = "/k.pem"
nmx_c_tls_authority = "nmx"
nmx_c_endpoint_port = 9371
partition_monitor_max_concurrent_groups = 16
[nvlink_config.nmx_c_certificate_rotation]
enabled = true
)");
  EXPECT_FALSE(config.settings.enabled);
  EXPECT_EQ(config.settings.interval, Nanos(2min));
  EXPECT_EQ(config.identity.client_key_path, "/k.pem");
  EXPECT_EQ(config.nmx_c_endpoint_port, 9371);
}

TEST(ControllerConfigTest, DurationsMayBeBareOrLong) {
  EXPECT_EQ(parsed("[nvlink_config]\nmonitor_run_interval = \"33\"").settings.interval, Nanos(33s));
  EXPECT_EQ(parsed("[nvlink_config]\nmonitor_run_interval = 33").settings.interval, Nanos(33s));
  EXPECT_EQ(parsed("[nvlink_config]\nmonitor_run_interval = \"2w\"").settings.interval,
            Nanos(336h));
  EXPECT_NE(problem("[nvlink_config]\nmonitor_run_interval = \"0s\""), "");
  EXPECT_NE(problem("[nvlink_config]\nmonitor_run_interval = \"soon\""), "");
}

TEST(ControllerConfigTest, EndpointsHaveIdentitiesOfTheirOwn) {
  const ControllerConfig config = parsed(R"(
[[endpoint]]
kind = "nmx-c"
url = "https://10.0.0.11:9370"
chassis_serial = "182"
tls_ca_cert_path = "/one.pem"
[[endpoint]]
kind = "nmx-m"
url = "http://nmx-m"
credentials_file = "/secret"
)");
  ASSERT_EQ(config.endpoints.size(), 2U);
  EXPECT_EQ(config.endpoints[0].identity.ca_certificate_path, "/one.pem");
  EXPECT_EQ(config.endpoints[1].protocol, FabricProtocol::kNmxM);
}

TEST(ControllerConfigTest, IssuersSayWhoIsBelieved) {
  const ControllerConfig config = parsed(R"(
[[issuer]]
issuer = "https://sso"
jwks = "/keys.json"
audiences = ["imex"]
org_claim = "org"
roles = ["TENANT_ADMIN"]
)");
  ASSERT_EQ(config.issuers.size(), 1U);
  EXPECT_EQ(config.issuers[0].audiences, std::vector<std::string>{"imex"});
  EXPECT_EQ(config.issuers[0].roles, std::vector<std::string>{"TENANT_ADMIN"});
  EXPECT_NE(problem("[[issuer]]\nissuer = \"x\"").find("issuer.jwks: missing"), std::string::npos);
  EXPECT_NE(problem("[[issuer]]\nscopes = 1").find("want a list of texts"), std::string::npos);
}

TEST(ControllerConfigTest, AdministratorsNeedTlsOrAnExplicitWord) {
  const auto config = parse_controller_config(
      "[administration]\nlisten = ['0.0.0.0:1079']\ntls_cert_path = 'a'\ntls_key_path = 'b'\n"
      "tls_ca_cert_path = 'c'\nadmins = ['cn:ops-*']\nsite_agents = ['san:agent']",
      "c.toml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->administration.listen, std::vector<std::string>{"0.0.0.0:1079"});
  EXPECT_EQ(config->administration.admins, std::vector<std::string>{"cn:ops-*"});
  EXPECT_EQ(config->administration.site_agents, std::vector<std::string>{"san:agent"});

  const auto open = parse_controller_config("[administration]\nlisten = ['127.0.0.1:1']", "c.toml");
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().message.find("trust_local"), std::string::npos);
  const auto half = parse_controller_config("[administration]\ntls_key_path = 'b'", "c.toml");
  ASSERT_FALSE(half);
  EXPECT_NE(half.error().message.find("given together"), std::string::npos);
}

TEST(ControllerConfigTest, EveryProblemIsNamedWithItsLine) {
  const std::string text = problem(
      "[nvlink_config]\nenabeld = true\nmonitor_run_interval = []\n[controller]\nstore = 1\n");
  EXPECT_NE(text.find("c.toml:2: nvlink_config.enabeld: unknown key"), std::string::npos) << text;
  EXPECT_NE(text.find("c.toml:3: nvlink_config.monitor_run_interval"), std::string::npos) << text;
  EXPECT_NE(text.find("c.toml:5: controller.store: want a text"), std::string::npos) << text;
  EXPECT_NE(problem("[nvlink_config]\nnmx_c_tls_client_cert_path = \"/c\"").find("together"),
            std::string::npos);
  EXPECT_NE(problem("[[endpoint]]\nurl = \"ftp://x\"").find("endpoint.url"), std::string::npos);
  EXPECT_NE(problem("[").find("not TOML"), std::string::npos);
}

}  // namespace
}  // namespace imex::partition
