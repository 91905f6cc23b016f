#include "partition/controller/config.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <map>

#include <toml++/toml.h>

#include "base/units.hpp"

namespace imex::partition {
namespace {

/// "7d" and "2w" beside what parse_duration() knows, and bare seconds.
Result<Nanos> parse_interval(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error == std::errc() && number >= 0 && number < 1'000'000'000) {
    if (unit.empty()) return Nanos(std::chrono::seconds(number));
    if (unit == "d") return Nanos(std::chrono::hours(24 * std::min<std::int64_t>(number, 36'500)));
    if (unit == "w") return Nanos(std::chrono::hours(168 * std::min<std::int64_t>(number, 5'200)));
  }
  return parse_duration(text);
}

class ConfigReader {
 public:
  ConfigReader(std::string path, ControllerConfig& out) : path_(std::move(path)), out_(out) {}

  void read(const toml::table& root) {
    section_ = "";
    known_ = {
        {"controller", [&](const toml::node& n) { table(n, "controller", controller_keys()); }},
        {"nvlink_config", [&](const toml::node& n) { table(n, "nvlink_config", nvlink_keys()); }},
        {"administration",
         [&](const toml::node& n) { table(n, "administration", administration_keys()); }},
        {"endpoint", [&](const toml::node& n) { endpoints(n); }},
        {"issuer", [&](const toml::node& n) { issuers(n); }}};
    walk(root, known_);
    check_identity(out_.identity, "nvlink_config");
    check_administration();
  }
  [[nodiscard]] const std::string& problems() const { return problems_; }

 private:
  using Keys = std::map<std::string, std::function<void(const toml::node&)>, std::less<>>;

  void problem(const toml::node& node, std::string_view key, std::string_view what) {
    if (!problems_.empty()) problems_ += "; ";
    problems_ += path_ + ":" + std::to_string(node.source().begin.line) + ": " + section_ +
                 std::string(key) + ": " + std::string(what);
  }

  void walk(const toml::table& table, const Keys& keys) {
    for (const auto& [key, value] : table) {
      key_ = key.str();
      const auto at = keys.find(key_);
      if (at == keys.end()) {
        problem(value, key_, "unknown key");
      } else {
        at->second(value);
      }
    }
  }

  void table(const toml::node& node, std::string_view name, const Keys& keys) {
    const toml::table* entries = node.as_table();
    if (entries == nullptr) return problem(node, name, "want a table");
    section_ = std::string(name) + ".";
    walk(*entries, keys);
    section_.clear();
  }

  std::function<void(const toml::node&)> text(std::string& out) {
    return [this, &out](const toml::node& node) {
      const auto* value = node.as_string();
      if (value == nullptr) return problem(node, key_, "want a text");
      out = value->get();
    };
  }
  std::function<void(const toml::node&)> texts(std::vector<std::string>& out) {
    return [this, &out](const toml::node& node) {
      const toml::array* list = node.as_array();
      for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
        const auto* value = (*list)[i].as_string();
        if (value == nullptr) return problem(node, key_, "want a list of texts");
        out.push_back(value->get());
      }
      if (list == nullptr) problem(node, key_, "want a list of texts");
    };
  }
  std::function<void(const toml::node&)> flag(bool& out) {
    return [this, &out](const toml::node& node) {
      const auto* value = node.as_boolean();
      if (value == nullptr) return problem(node, key_, "want true or false");
      out = value->get();
    };
  }
  std::function<void(const toml::node&)> duration(Nanos& out) {
    return [this, &out](const toml::node& node) {
      Result<Nanos> parsed = fail(Errc::kInvalidArgument, "");
      if (const auto* text = node.as_string()) parsed = parse_interval(text->get());
      if (const auto* count = node.as_integer())
        parsed = parse_interval(std::to_string(count->get()));
      if (!parsed || *parsed <= Nanos(0)) {
        return problem(node, key_, "want a duration above 0, e.g. \"60s\"");
      }
      out = *parsed;
    };
  }
  std::function<void(const toml::node&)> port(std::uint16_t& out) {
    return [this, &out](const toml::node& node) {
      const auto* value = node.as_integer();
      const std::int64_t number = value == nullptr ? 0 : value->get();
      if (number < 1 || number > 65'535) return problem(node, key_, "want a port from 1 to 65535");
      out = static_cast<std::uint16_t>(number);
    };
  }
  template <class T>
  std::function<void(const toml::node&)> choice(T& out,
                                                std::map<std::string, T, std::less<>> values) {
    return [this, &out, values = std::move(values)](const toml::node& node) {
      const auto* value = node.as_string();
      const auto at = value == nullptr ? values.end() : values.find(value->get());
      if (at != values.end()) {
        out = at->second;
        return;
      }
      std::string wanted = "want one of";
      for (const auto& [name, meaning] : values) wanted += " \"" + name + "\"";
      problem(node, key_, wanted);
    };
  }
  /// Keys of NICo that steer what is done otherwise here: taken, so that its files are.
  std::function<void(const toml::node&)> ignored() {
    return [](const toml::node&) {};
  }

  Keys controller_keys() {
    return {{"store", text(out_.store)},
            {"key_file", text(out_.key_file)},
            {"listen", text(out_.listen)},
            {"metrics_listen", text(out_.metrics_listen)},
            {"site", text(out_.site)},
            {"provider_org", text(out_.provider_org)},
            {"carbide_metrics", flag(out_.carbide_metrics)}};
  }

  Keys administration_keys() {
    AdministrationConfig& out = out_.administration;
    return {
        {"listen", texts(out.listen)},          {"tls_cert_path", text(out.certificate_path)},
        {"tls_key_path", text(out.key_path)},   {"tls_ca_cert_path", text(out.ca_certificate_path)},
        {"trust_local", flag(out.trust_local)}, {"admins", texts(out.admins)},
        {"site_agents", texts(out.site_agents)}};
  }

  Keys nvlink_keys() {
    ControllerSettings& settings = out_.settings;
    return {{"enabled", flag(settings.enabled)},
            {"monitor_run_interval", duration(settings.interval)},
            {"allow_insecure", flag(out_.allow_insecure)},
            {"nmx_m_endpoint", text(nmx_m_endpoint_)},
            {"nmx_m_operation_timeout", duration(settings.operation_timeout)},
            {"nmx_c_tls_ca_cert_path", text(out_.identity.ca_certificate_path)},
            {"nmx_c_tls_client_cert_path", text(out_.identity.client_certificate_path)},
            {"nmx_c_tls_client_key_path", text(out_.identity.client_key_path)},
            {"nmx_c_tls_authority", text(out_.identity.authority)},
            {"nmx_c_endpoint_port", port(out_.nmx_c_endpoint_port)},
            {"domain_discovery_enabled", ignored()},
            {"domain_discovery_operation_timeout", duration(settings.observation_timeout)},
            {"partition_monitor_max_concurrent_groups", ignored()},
            {"nmx_c_certificate_rotation", ignored()},
            {"operation_timeout", duration(settings.operation_timeout)},
            {"observation_timeout", duration(settings.observation_timeout)},
            {"doubt_window", duration(settings.doubt_window)},
            {"partition_mark", text(settings.mark)},
            {"default_partition", choice<reconciler::DefaultPartitionPolicy>(
                                      settings.default_partition,
                                      {{"dissolve", reconciler::DefaultPartitionPolicy::kDissolve},
                                       {"lend", reconciler::DefaultPartitionPolicy::kLend}})},
            {"stolen_gpus",
             choice<reconciler::StolenGpuPolicy>(
                 settings.stolen_gpus, {{"take-back", reconciler::StolenGpuPolicy::kTakeBack},
                                        {"report", reconciler::StolenGpuPolicy::kReport}})}};
  }

  void endpoints(const toml::node& node) {
    const toml::array* entries = node.as_array();
    if (entries == nullptr) return problem(node, "endpoint", "want [[endpoint]] tables");
    for (const toml::node& entry : *entries) {
      ConfiguredEndpoint& endpoint = out_.endpoints.emplace_back();
      table(
          entry, "endpoint",
          {{"kind", choice<FabricProtocol>(endpoint.protocol, {{"nmx-c", FabricProtocol::kNmxC},
                                                               {"nmx-m", FabricProtocol::kNmxM}})},
           {"url", text(endpoint.url)},
           {"chassis_serial", text(endpoint.chassis_serial)},
           {"tls_ca_cert_path", text(endpoint.identity.ca_certificate_path)},
           {"tls_client_cert_path", text(endpoint.identity.client_certificate_path)},
           {"tls_client_key_path", text(endpoint.identity.client_key_path)},
           {"tls_authority", text(endpoint.identity.authority)},
           {"credentials_file", text(endpoint.credentials_file)},
           {"verify_server", flag(endpoint.verify_server)}});
      const bool is_url =
          endpoint.url.starts_with("http://") || endpoint.url.starts_with("https://");
      if (!is_url) problem(entry, "endpoint.url", "want http://HOST:PORT or https://HOST:PORT");
      check_identity(endpoint.identity, "endpoint");
    }
  }

  void issuers(const toml::node& node) {
    const toml::array* entries = node.as_array();
    if (entries == nullptr) return problem(node, "issuer", "want [[issuer]] tables");
    for (const toml::node& entry : *entries) {
      ConfiguredIssuer& issuer = out_.issuers.emplace_back();
      table(entry, "issuer",
            {{"name", text(issuer.name)},
             {"issuer", text(issuer.issuer)},
             {"jwks", text(issuer.jwks)},
             {"audiences", texts(issuer.audiences)},
             {"scopes", texts(issuer.scopes)},
             {"org", text(issuer.org)},
             {"org_claim", text(issuer.org_claim)},
             {"roles", texts(issuer.roles)},
             {"roles_claim", text(issuer.roles_claim)},
             {"service_account", flag(issuer.service_account)}});
      if (issuer.issuer.empty()) problem(entry, "issuer.issuer", "missing");
      if (issuer.jwks.empty()) problem(entry, "issuer.jwks", "missing");
    }
  }

  void whole_problem(const std::string& section, std::string_view what) {
    if (!problems_.empty()) problems_ += "; ";
    problems_ += path_ + ": " + section + ": " + std::string(what);
  }
  void check_identity(const ManagerIdentity& identity, const std::string& section) {
    if (identity.client_certificate_path.empty() == identity.client_key_path.empty()) return;
    whole_problem(section, "a client certificate and its key are given together");
  }
  void check_administration() {
    const AdministrationConfig& out = out_.administration;
    const auto given = [](const std::string& path) { return path.empty() ? 0 : 1; };
    const int files =
        given(out.certificate_path) + given(out.key_path) + given(out.ca_certificate_path);
    if (files != 0 && files != 3) {
      whole_problem("administration",
                    "tls_cert_path, tls_key_path and tls_ca_cert_path are given together");
    }
    if (!out.listen.empty() && files == 0 && !out.trust_local) {
      whole_problem("administration", "want the three TLS files, or trust_local = true");
    }
  }

  std::string path_;
  ControllerConfig& out_;
  Keys known_;
  std::string section_;
  std::string key_;
  std::string nmx_m_endpoint_;
  std::string problems_;
};

}  // namespace

Result<ControllerConfig> parse_controller_config(std::string_view text, const std::string& path) {
  ControllerConfig config;
  ConfigReader reader(path, config);
  try {
    reader.read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return fail(Errc::kInvalidArgument, path + ":" + std::to_string(error.source().begin.line) +
                                            ": not TOML: " + std::string(error.description()));
  }
  if (!reader.problems().empty()) return fail(Errc::kInvalidArgument, reader.problems());
  if (config.allow_insecure) {
    for (ConfiguredEndpoint& endpoint : config.endpoints) endpoint.verify_server = false;
  }
  return config;
}

}  // namespace imex::partition
