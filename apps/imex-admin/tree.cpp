#include "tree.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>
#include <span>

#include <fmt/ranges.h>

#include "base/text.hpp"
#include "base/time.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "os/file.hpp"

namespace imex::admin {
namespace {

constexpr const char* kDefaultUrl = "https://localhost:1079";
constexpr std::chrono::hours kTimeoutMax{1};
constexpr std::string_view kUnsafe = "--cloud-unsafe-op";

/// Names and aliases of all commands, to tell them from the value of an option.
void collect_names(const CLI::App& app, std::set<std::string>& names) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.insert(command->get_name());
    for (const std::string& alias : command->get_aliases()) names.insert(alias);
    collect_names(*command, names);
  }
}

}  // namespace

CommandTree::CommandTree()
    : app_(
          "Administer the NVLink partition controller: endpoints, credentials, partitions, "
          "machines.",
          "imex-admin") {
  app_.require_subcommand(1);
  app_.fallthrough();  // global options may stand behind the command
  app_.set_version_flag("--version", version_line(),
                        "print version, git description, build type, backends");
  app_.get_formatter()->column_width(34);
  app_.footer(
      "Example: imex-admin --api-url https://controller:1079 nvlink-nmxc-endpoints show\n"
      "'imex-admin COMMAND --help' has options and examples.");
  add_globals();
  add_credential();
  add_endpoints();
  add_logical_partition();
  add_nvl_partition();
  add_machine();
  add_instance();
  leaf(&app_, "version", "what the controller is", "Example: imex-admin version --format json",
       [](const Session& session) { return show_version(session); });
}

CommandTree::~CommandTree() = default;

CLI::App* CommandTree::group(CLI::App* parent, const std::string& name, const std::string& help,
                             const std::string& example) {
  CLI::App* command = parent->add_subcommand(name, help);
  command->require_subcommand(1);
  command->fallthrough();
  command->footer("Example: " + example);
  return command;
}

CLI::App* CommandTree::leaf(CLI::App* parent, const std::string& name, const std::string& help,
                            const std::string& examples, Action action, bool unsafe) {
  CLI::App* command = parent->add_subcommand(name, help);
  command->fallthrough();
  command->footer(examples);
  command->callback([this, unsafe, action = std::move(action)] {
    action_ = action;
    unsafe_ = unsafe;
  });
  return command;
}

void CommandTree::add_globals() {
  app_.add_option(
          "--api-url,-a", connection_.api_url,
          fmt::format("of the controller's administrator service; default: {}", kDefaultUrl))
      ->envname("API_URL")
      ->type_name("URL");
  app_.add_option("--format,-f", format_name_, "ascii-table, json, jsonl, csv or yaml")
      ->check(CLI::IsMember({"ascii-table", "table", "json", "jsonl", "csv", "yaml"}))
      ->capture_default_str();
  app_.add_option("--output,-o", output_file_, "write the result there; default: standard output")
      ->type_name("FILE");
  app_.add_option("--root-ca-path,--forge-root-ca-path", connection_.root_ca_path,
                  "authority of the controller's certificate; default: the system's")
      ->envname("ROOT_CA_PATH")
      ->type_name("FILE");
  app_.add_option("--client-cert-path", connection_.client_cert_path, "our certificate")
      ->envname("CLIENT_CERT_PATH")
      ->type_name("FILE");
  app_.add_option("--client-key-path", connection_.client_key_path, "and its key")
      ->envname("CLIENT_KEY_PATH")
      ->type_name("FILE");
  app_.add_flag(std::string(kUnsafe), unsafe_user_,
                "allow what bypasses the REST API; a name may follow, for NICo's sake");
  app_.add_option("--page-size,-p", page_size_, "objects that are asked for at once")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app_.add_option("--timeout", timeout_, "longest wait for an answer")
      ->type_name("DURATION")
      ->capture_default_str();
  app_.add_flag("--quiet,-q", quiet_, "no remarks on standard error");
}

void CommandTree::add_credential() {
  CLI::App* credential =
      group(&app_, "credential", "what fabric managers are spoken to with",
            "imex-admin credential add-nmx-m --username nico --password-file secret");
  CLI::App* add =
      leaf(credential, "add-nmx-m", "store user and password of the site's NMX-M, sealed",
           "Examples:\n  imex-admin credential add-nmx-m --username nico --password-file secret\n"
           "  pass show nmx-m | imex-admin credential add-nmx-m --username nico --password-file -",
           [this](const Session& session) { return add_nmxm_credential(session, credential_); });
  add->add_option("--username", credential_.user,
                  "with the rights to read GPUs and change partitions")
      ->required();
  CLI::Option_group* const one = add->add_option_group("password");
  one->add_option("--password", credential_.password,
                  "seen by all users of this machine while it runs");
  one->add_option("--password-file", credential_.password_file,
                  "file with the password; '-' reads standard input")
      ->type_name("FILE");
  one->require_option(1);
  CLI::App* remove = leaf(
      credential, "delete-nmx-m", "forget the password of a user of NMX-M",
      "Example: imex-admin credential delete-nmx-m --username nico",
      [this](const Session& session) { return delete_nmxm_credential(session, credential_.user); });
  remove->add_option("--username", credential_.user, "whose password it is")->required();
}

void CommandTree::add_endpoints() {
  CLI::App* endpoints =
      group(&app_, "nvlink-nmxc-endpoints", "where the NMX-C of each chassis listens",
            "imex-admin nvlink-nmxc-endpoints show");
  const auto chassis = [this](CLI::App* command) {
    return command
        ->add_option("--chassis-serial", endpoint_.chassis_serial, "serial number of the chassis")
        ->type_name("SERIAL");
  };
  const auto url = [this](CLI::App* command) {
    command
        ->add_option("--endpoint", endpoint_.endpoint,
                     "http://HOST:PORT for plaintext, https://HOST:PORT for TLS")
        ->type_name("URL")
        ->required();
  };
  chassis(leaf(endpoints, "show", "all endpoints, or that of one chassis",
               "Examples:\n  imex-admin nvlink-nmxc-endpoints show --format json\n"
               "  imex-admin nvlink-nmxc-endpoints show --chassis-serial 1820325191254",
               [this](const Session& session) {
                 return show_endpoints(session, endpoint_.chassis_serial);
               }));
  CLI::App* create =
      leaf(endpoints, "create", "enter the endpoint of a chassis",
           "Example: imex-admin nvlink-nmxc-endpoints create --chassis-serial 1820325191254 "
           "--endpoint https://10.0.0.7:9370",
           [this](const Session& session) { return create_endpoint(session, endpoint_); });
  chassis(create)->required();
  url(create);
  CLI::App* update =
      leaf(endpoints, "update", "change the endpoint of a chassis",
           "Example: imex-admin nvlink-nmxc-endpoints update --chassis-serial 1820325191254 "
           "--endpoint https://10.0.0.8:9370",
           [this](const Session& session) { return update_endpoint(session, endpoint_); });
  chassis(update)->required();
  url(update);
  chassis(leaf(endpoints, "delete", "forget the endpoint of a chassis",
               "Example: imex-admin nvlink-nmxc-endpoints delete --chassis-serial 1820325191254",
               [this](const Session& session) {
                 return delete_endpoint(session, endpoint_.chassis_serial);
               }))
      ->required();
}

void CommandTree::add_logical_partition() {
  CLI::App* partition = group(&app_, "logical-partition", "partitions as tenants name them",
                              "imex-admin logical-partition show");
  partition->alias("lp");
  CLI::App* show =
      leaf(partition, "show", "all logical partitions, or one",
           "Examples:\n  imex-admin lp show --name training\n"
           "  imex-admin lp show 6f0d1c1e-0000-4000-8000-000000000001 --format yaml",
           [this](const Session& session) { return show_logical_partitions(session, show_); });
  show->add_option("id", show_.id, "of the one to show")->type_name("UUID");
  show->add_option("--name", show_.name, "only those of that name");
  CLI::App* create =
      leaf(partition, "create", "make a logical partition for a tenant",
           "Example: imex-admin lp create -n training -t acme", [this](const Session& session) {
             return create_logical_partition(session, name_, tenant_org_);
           });
  create->add_option("-n,--name", name_, "unique among the tenant's")->required();
  create->add_option("-t,--tenant-organization-id", tenant_org_, "organisation of the tenant")
      ->type_name("ORG")
      ->required();
  CLI::App* remove =
      leaf(partition, "delete", "delete a logical partition that nobody uses",
           "Example: imex-admin lp delete -n 6f0d1c1e-0000-4000-8000-000000000001",
           [this](const Session& session) { return delete_logical_partition(session, name_); });
  remove->add_option("-n,--name,--id", name_, "its id, in spite of the letter")
      ->type_name("UUID")
      ->required();
}

void CommandTree::add_nvl_partition() {
  CLI::App* partition = group(&app_, "nvl-partition", "partitions in the fabric managers",
                              "imex-admin nvl-partition show");
  partition->alias("nvp");
  CLI::App* show =
      leaf(partition, "show", "all physical partitions that are ours, or one",
           "Examples:\n  imex-admin nvp show --tenant-org-id acme\n"
           "  imex-admin nvp show 6f0d1c1e-0000-4000-8000-000000000001",
           [this](const Session& session) { return show_nvl_partitions(session, show_); });
  show->add_option("id", show_.id, "of the one to show")->type_name("UUID");
  show->add_option("--tenant-org-id", show_.tenant_org, "only those of that organisation")
      ->type_name("ORG");
  show->add_option("--name", show_.name, "only those of that name in the fabric manager");
}

void CommandTree::add_machine() {
  CLI::App* machine =
      group(&app_, "machine", "hosts with GPUs", "imex-admin machine nvlink-info show ID");
  CLI::App* info = group(machine, "nvlink-info", "which GPUs of a fabric manager a machine has",
                         "imex-admin machine nvlink-info show 1820325191254.3.1");
  const auto id = [this](CLI::App* command) {
    command->add_option("machine", populate_.machine, "id of the machine")
        ->type_name("ID")
        ->required();
  };
  id(leaf(info, "show", "what is stored",
          "Example: imex-admin machine nvlink-info show 1820325191254.3.1",
          [this](const Session& session) { return show_nvlink_info(session, populate_.machine); }));
  CLI::App* populate =
      leaf(info, "populate", "look in the fabric manager, and store what is found with --update-db",
           "Example: imex-admin machine nvlink-info populate 1820325191254.3.1 --update-db",
           [this](const Session& session) { return populate_nvlink_info(session, populate_); });
  id(populate);
  populate->add_flag("--update-db", populate_.update_db, "store what is found");
  populate
      ->add_option("--chassis-serial", populate_.chassis_serial,
                   "chassis to look in; default: the one that is known of the machine")
      ->type_name("SERIAL");
  populate->add_option("--tray-index", populate_.tray_index, "tray of the chassis, likewise")
      ->type_name("N");
  CLI::App* remove = leaf(machine, "force-delete", "remove a broken machine and the instance on it",
                          "Example: imex-admin machine force-delete 1820325191254.3.1",
                          [this](const Session& session) {
                            return force_delete_machine(session, populate_.machine, despite_type_);
                          });
  remove->add_option("machine,--machine", populate_.machine, "id of the machine")
      ->type_name("ID")
      ->required();
  remove->add_flag("--allow-delete-with-instance-type", despite_type_,
                   "although it is associated with an instance type");
}

void CommandTree::add_instance() {
  CLI::App* instance =
      group(&app_, "instance", "tenants' holds on machines", "imex-admin instance show ID");
  leaf(instance, "show", "an instance with its NVLink configuration and status",
       "Example: imex-admin instance show 6f0d1c1e-0000-4000-8000-000000000001 --format json",
       [this](const Session& session) { return show_instance(session, id_); })
      ->add_option("id", id_, "of the instance")
      ->type_name("UUID")
      ->required();
  CLI::App* update = leaf(
      instance, "update-nvlink-config", "replace the NVLink configuration of an instance",
      "Example: imex-admin --cloud-unsafe-op instance update-nvlink-config "
      "-i 6f0d1c1e-0000-4000-8000-000000000001 --config '{\"gpu_configs\": [{\"device_instance\": "
      "0, \"logical_partition_id\": \"3e1b...\"}]}'",
      [this](const Session& session) { return update_instance_nvlink(session, id_, config_); },
      true);
  update->add_option("-i,--instance", id_, "id of the instance")->type_name("UUID")->required();
  update->add_option("--config", config_, "the complete configuration")
      ->type_name("JSON")
      ->required();
}

// ---- Running -----------------------------------------------------------------------------------

/// CLI11 says only that a command is missing, also when a word stands there that it does not know.
void CommandTree::explain_missing(Error& error) const {
  const CLI::App* app = &app_;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  std::vector<std::string> names;
  for (const CLI::App* sub : app->get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_name().empty()) names.push_back(sub->get_name());
  }
  if (names.empty()) return;  // an argument is missing, not a command
  const auto unknown = app_.remaining(true);
  error.message = unknown.empty()
                      ? fmt::format("{}: which command?", app->get_name())
                      : fmt::format("{}: no command '{}'", app->get_name(), unknown.front());
  error.hint = fmt::format("commands are {}", fmt::join(names, ", "));
}

/// The arguments, with a name behind --cloud-unsafe-op made part of it: NICo's has one there, ours
/// needs none, and no command may be taken for it. Last first, as the parser wants them.
std::vector<std::string> CommandTree::words_of(int argc, const char* const* argv) const {
  std::set<std::string> names;
  collect_names(app_, names);
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const bool value_follows =
        word == kUnsafe && i + 1 < argc && argv[i + 1][0] != '-' && !names.contains(argv[i + 1]);
    if (value_follows) word += std::string("=") + argv[++i];
    words.push_back(std::move(word));
  }
  std::reverse(words.begin(), words.end());
  return words;
}

Result<void> CommandTree::check_globals() {
  IMEX_TRY(format_, parse_format(format_name_));
  if (connection_.api_url.empty()) connection_.api_url = kDefaultUrl;
  const auto timeout = parse_duration(timeout_);
  if (!timeout || *timeout <= Nanos::zero() || *timeout > kTimeoutMax) {
    return fail(Errc::kInvalidArgument,
                fmt::format("--timeout '{}' is no time up to 1h", printable(timeout_)),
                "for example 250ms, 5s, 2m");
  }
  connection_.timeout = std::chrono::ceil<std::chrono::milliseconds>(*timeout);
  if (unsafe_ && unsafe_user_.empty()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("this bypasses the REST API, so it needs {}", kUnsafe),
                "a tenant's own PATCH of the instance does the same, and checks more");
  }
  return {};
}

Result<void> CommandTree::deliver(const Output& output) const {
  const std::string text = render(output, format_);
  if (text.empty()) return {};
  if (!output_file_.empty()) {
    constexpr std::uint32_t kMode = 0644;
    return os::replace_file(output_file_, std::as_bytes(std::span(text)), kMode);
  }
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) return fail(system_error(errno, "write the result to standard output"));
  return {};
}

int CommandTree::report(const Error& error, int exit_status) const {
  if (format_name_ == "json" || format_name_ == "jsonl") {
    const Json json{
        {"error",
         {{"code", errc_name(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
    fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
    std::fflush(stdout);
  }
  fmt::print(stderr, "imex-admin: {}\n", printable(error.to_string()));
  return exit_status;
}

int CommandTree::run(int argc, const char* const* argv) {
  try {
    app_.parse(words_of(argc, argv));
  } catch (const CLI::Success& request) {  // --help, --version
    return app_.exit(request) == 0 ? kExitOk : kExitFailed;
  } catch (const CLI::ParseError& error) {
    Error wrong{Errc::kInvalidArgument, error.what(),
                "see imex-admin --help, or --help behind the command"};
    if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) explain_missing(wrong);
    return report(wrong, kExitUsage);
  }
  if (const auto fine = check_globals(); !fine) return report(fine.error(), kExitUsage);
  auto client = Client::connect(connection_);
  if (!client) {
    const bool usage = client.error().code == Errc::kInvalidArgument;
    return report(client.error(), usage ? kExitUsage : kExitFailed);
  }
  Session session{*client, page_size_, {}};
  if (!quiet_)
    session.progress = [](const std::string& line) { fmt::print(stderr, "{}\n", printable(line)); };
  auto output = action_(session);
  if (!output) {
    // Wrong use is what was typed; what the controller refuses is work that failed.
    const bool usage = output.error().code == Errc::kInvalidArgument && !client->has_asked();
    return report(output.error(), usage ? kExitUsage : kExitFailed);
  }
  if (const auto done = deliver(*output); !done) return report(done.error(), kExitFailed);
  return kExitOk;
}

}  // namespace imex::admin
