#include "tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/time.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "completion.hpp"
#include "inference/catalogue/catalogue.hpp"

namespace imex::cli {
namespace {

/// Longest time a command may be told to wait for a daemon.
constexpr std::chrono::hours kTimeoutMax{1};

Result<Format> parse_format(const std::string& name) {
  if (name == "table") return Format::kTable;
  if (name == "json") return Format::kJson;
  if (name == "jsonl") return Format::kJsonLines;
  return fail(Errc::kInvalidArgument, fmt::format("unknown format '{}'", name),
              "--format takes table, json or jsonl");
}

/// Before parsing succeeded: the errors of the parser itself are to come in the asked format, too.
Format format_of_arguments(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--") break;
    if (word == "--format" && i + 1 < argc)
      word = argv[i + 1];
    else if (word.starts_with("--format="))
      word.remove_prefix(9);
    else
      continue;
    return parse_format(std::string(word)).value_or(Format::kTable);
  }
  return Format::kTable;
}

}  // namespace

CommandTree::CommandTree()
    : app_(
          "Share GPU memory across processes and machines: ask and steer the daemons of this "
          "machine.",
          "imex") {
  app_.require_subcommand(1);
  app_.fallthrough();  // global options may stand behind the command
  app_.set_version_flag("--version", version_line(),
                        "print version, git description, build type, backends");
  app_.get_formatter()->column_width(34);
  app_.footer(
      "Example: imex domain show --format json\n'imex COMMAND --help' has options and examples.");
  add_globals();
  add_domain();
  add_channel();
  add_config();
  add_status();
  add_partition();
  add_instance();
  add_vpc();
  add_rack();
  add_generate();
  add_chat();
  add_perplexity();
  add_model();
  add_bench();
  add_completion();
}

CommandTree::~CommandTree() = default;

CLI::App* CommandTree::leaf(CLI::App* parent, const std::string& name, const std::string& help,
                            const std::string& examples, Action action) {
  CLI::App* command = parent->add_subcommand(name, help);
  command->fallthrough();
  command->footer(examples);
  command->callback([this, action = std::move(action)] { action_ = action; });
  return command;
}

void CommandTree::add_globals() {
  app_.add_option("--format", format_, "shape of results on standard output")
      ->check(CLI::IsMember({"table", "json", "jsonl"}))
      ->capture_default_str();
  app_.add_option(
          "--state-dir", global_.state_dir,
          "of the daemon to ask; default: $IMEX_STATE_DIR, else the only daemon of this machine")
      ->type_name("DIR");
  app_.add_option("--timeout", timeout_, "longest wait for a daemon's answer")
      ->type_name("DURATION")
      ->capture_default_str();
  app_.add_flag("--quiet,-q", global_.quiet, "no progress and no remarks on standard error");
}

void CommandTree::add_domain() {
  CLI::App* domain = app_.add_subcommand("domain", "the domain that the local daemon belongs to");
  domain->require_subcommand(1);
  domain->fallthrough();
  domain->footer("Example: imex domain show");
  leaf(domain, "show", "members of the domain: address, connection, status, version",
       "Examples:\n  imex domain show\n  imex --state-dir /var/lib/imex/n0 domain show --format "
       "json | jq .state",
       [this] { return domain_show(global_); });
}

void CommandTree::add_status() {
  CLI::App* status =
      leaf(&app_, "status", "what runs on this machine, and what it waits for",
           "Examples:\n  imex status --communicator\n"
           "  imex status --communicator --format jsonl | jq 'select(.waits_seconds > 10)'",
           [this] { return communicator_status(global_, operations_); });
  status
      ->add_flag("--communicator", communicators_,
                 "ranks of this user's communicators: their last operations, whom they wait for")
      ->required();
  status
      ->add_option("--operations", operations_,
                   "so many of the newest operations of each lane with --format json")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void CommandTree::add_model() {
  CLI::App* model = app_.add_subcommand("model", "models on this machine");
  model->require_subcommand(1);
  model->fallthrough();
  model->footer("Example: imex model fetch smollm2-135m");
  leaf(model, "list", "models known by name, and which of them are on this machine",
       "Examples:\n  imex model list\n  imex model list --format jsonl | jq 'select(.cached)'",
       [this] { return model_list(global_); });
  std::vector<std::string> names;
  for (const auto& known : inference::catalogue()) names.emplace_back(known.name);
  CLI::App* fetch =
      leaf(model, "fetch", "get a known model, check it, and print where it lies",
           "Examples:\n  imex model fetch smollm2-135m\n"
           "  IMEX_CACHE_DIR=/data/models imex model fetch smollm2-135m --format json",
           [this] { return model_fetch(global_, fetched_model_); });
  fetch->add_option("name", fetched_model_, "a name of imex model list")
      ->required()
      ->type_name("NAME")
      ->check(CLI::IsMember(names));
  CLI::App* show = leaf(model, "show", "what a model is, and what each rank of it would hold",
                        "Examples:\n  imex model show smollm2-135m\n"
                        "  imex model show model.gguf --tensor-parallel 3\n"
                        "  imex model show ./folder --format json | jq .weight_bytes\n"
                        "  imex model show model.tensors --verify\n"
                        "  imex model show model.tensors --key-file model.key",
                        [this] { return model_show(global_, model_); });
  show->add_option(
          "model", model_.path,
          "a .gguf, .tensors, .safetensors or llama2.c .bin file, a folder in Hugging Face "
          "layout, or a name of imex model list")
      ->required()
      ->type_name("MODEL");
  add_secret(show, model_.secret);
  show->add_option("--tensor-parallel,-T", model_.plan.tensor_parallel, "ranks of the split shown")
      ->check(CLI::Range(1U, UINT32_MAX))
      ->capture_default_str();
  show->add_option("--max-model-len,--context", model_.plan.context,
                   "tokens that a rank has room for; default: the model's")
      ->check(CLI::Range(1U, UINT32_MAX))
      ->type_name("N");
  show->add_flag("--invariant", model_.plan.invariant, "the split of generate --invariant");
  show->add_flag("--verify", model_.verify,
                 "read all weights and compare them with the hashes that .tensors files carry");

  CLI::App* convert = leaf(model, "convert", "write a model in another format",
                           "Examples:\n  imex model convert ./folder model.tensors\n"
                           "  imex model convert model.gguf out/model.safetensors --dtype bf16",
                           [this] { return model_convert(global_, convert_); });
  convert->add_option("source", convert_.source, "whatever 'imex model show' takes")
      ->required()
      ->type_name("SOURCE");
  convert
      ->add_option("target", convert_.target,
                   "a new .tensors or .safetensors file; configuration and tokenizer go beside it")
      ->required()
      ->type_name("TARGET");
  convert->add_option("--dtype", convert_.dtype, "of all weights; quantised ones cannot be kept")
      ->check(CLI::IsMember({"keep", "f32", "f16", "bf16"}))
      ->capture_default_str();
  convert->add_flag("--force", convert_.force, "replace the target if it is there");
  add_secret(convert, convert_.secret);
}

void CommandTree::add_secret(CLI::App* command, SecretFiles& files) {
  auto* const key = command
                        ->add_option("--key-file", files.key_file,
                                     "32 bytes, or 64 hexadecimal digits, for encrypted files")
                        ->type_name("FILE");
  command
      ->add_option("--passphrase-file", files.passphrase_file,
                   "passphrase of an encrypted file; a line end at its end is not part of it")
      ->type_name("FILE")
      ->excludes(key);
}

void CommandTree::add_channel() {
  CLI::App* channel =
      app_.add_subcommand("channel", "channels of this node: who may share memory with whom");
  channel->require_subcommand(1);
  channel->fallthrough();
  channel->footer("Example: imex channel grant job-7 --gpus 0,1");
  leaf(channel, "list", "open channels and what uses them",
       "Examples:\n  imex channel list\n  imex channel list --format jsonl",
       [this] { return channel_list(global_); });

  CLI::App* grant = leaf(channel, "grant", "give a workload a channel on this node",
                         "Examples:\n  imex channel grant job-7 --gpus 0,1 --uid 1000\n"
                         "  imex channel grant job-7 --format json | jq -r .path",
                         [this]() -> Result<void> {
                           if (!grant_uid_.empty()) {
                             IMEX_TRY(const auto uid, parse_integer(grant_uid_, 0, UINT32_MAX - 1));
                             grant_.uid = static_cast<std::uint32_t>(uid);
                           }
                           return channel_grant(global_, grant_);
                         });
  grant->add_option("workload", grant_.workload, "name, the same on every node of the domain")
      ->required();
  grant->add_option("--gpus", grant_.gpu_indexes, "indexes of the GPUs it may claim; default: all")
      ->delimiter(',')
      ->type_name("N,...");
  grant->add_option("--gpu-uids", grant_.gpu_uids, "the same by unique id")
      ->delimiter(',')
      ->type_name("ID,...");
  grant->add_option("--uid", grant_uid_, "user that may open the channel; default: yourself")
      ->type_name("UID");

  CLI::App* release =
      leaf(channel, "release", "end a workload's sessions and take its channel back",
           "Example: imex channel release job-7",
           [this] { return channel_release(global_, workload_); });
  release->add_option("workload", workload_, "name that it was granted under")->required();
}

void CommandTree::add_config() {
  CLI::App* config = app_.add_subcommand("config", "configuration of the daemons");
  config->require_subcommand(1);
  config->fallthrough();
  config->footer("Example: imex config show");
  CLI::App* show = leaf(config, "show", "every value and where it came from",
                        "Examples:\n  imex config show --config /etc/nvidia-imex/config.cfg\n"
                        "  imex config show --program nvidia-imex --changed",
                        [this] { return config_show(global_, config_); });
  show->add_option("--config,-c", config_.file, "KEY=VALUE file; default: built-in defaults")
      ->type_name("FILE");
  show->add_option("--program", config_.program, "whose defaults apply")
      ->check(CLI::IsMember({"imexd", "nvidia-imex"}))
      ->capture_default_str();
  show->add_flag("--changed", config_.changed_only, "only values that differ from the default");
}

void CommandTree::add_completion() {
  CLI::App* completion =
      leaf(&app_, "completion", "print a completion script for a shell",
           "Examples:\n  source <(imex completion bash)\n"
           "  imex completion zsh > ~/.zfunc/_imex\n  imex completion fish | source",
           [this]() -> Result<void> {
             IMEX_TRY(const Shell shell, parse_shell(shell_));
             return print(completion_script(app_, shell));
           });
  completion->add_option("shell", shell_, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

/// CLI11 says only that a command is missing, also when a word stands there that it does not know.
void CommandTree::explain_missing(Error& error) const {
  const CLI::App* app = &app_;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  std::vector<std::string> names;
  for (const CLI::App* sub : app->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  if (names.empty()) return;  // an argument is missing, not a command
  const auto unknown = app_.remaining(true);
  error.message = unknown.empty()
                      ? fmt::format("{}: which command?", app->get_name())
                      : fmt::format("{}: no command '{}'", app->get_name(), unknown.front());
  error.hint = fmt::format("commands are {}", fmt::join(names, ", "));
}

int CommandTree::run(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app_.exit(request) == 0 ? kExitOk : kExitFailed;
  } catch (const CLI::ParseError& error) {
    Error wrong{Errc::kInvalidArgument, error.what(),
                "see imex --help, or --help behind the command"};
    if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) explain_missing(wrong);
    return report(wrong, format_of_arguments(argc, argv));
  }
  const auto format = parse_format(format_);
  if (!format) return report(format.error(), Format::kTable);
  global_.format = *format;
  const auto timeout = parse_duration(timeout_);
  if (!timeout || *timeout <= Nanos::zero() || *timeout > kTimeoutMax) {
    return report(
        {Errc::kInvalidArgument, fmt::format("--timeout '{}' is no time up to 1h", timeout_),
         "for example 250ms, 5s, 2m"},
        global_.format);
  }
  global_.timeout = std::chrono::ceil<std::chrono::milliseconds>(*timeout);
  if (const auto done = action_(); !done) return report(done.error(), global_.format);
  return kExitOk;
}

}  // namespace imex::cli
