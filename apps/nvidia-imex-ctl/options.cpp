#include "options.hpp"

#include <string_view>

#include <fmt/format.h>

#include "base/units.hpp"

namespace imex::ctl {
namespace {

constexpr const char* kSeeHelp = "nvidia-imex-ctl --help lists all options";

class Parser {
 public:
  explicit Parser(std::span<const char* const> arguments) : arguments_(arguments) {}

  Result<Options> run() {
    while (at_ < arguments_.size()) IMEX_CHECK_OK(argument(arguments_[at_++]));
    IMEX_CHECK_OK(check());
    return std::move(options_);
  }

 private:
  /// One or two dashes mean the same for every name; "=VALUE" may follow.
  Result<void> argument(std::string_view text) {
    const std::string_view whole = text;
    if (text.size() < 2 || text.front() != '-') return unknown(whole);
    text.remove_prefix(text.starts_with("--") ? 2 : 1);
    const std::size_t equals = text.find('=');
    inline_value_.reset();
    if (equals != std::string_view::npos) inline_value_ = text.substr(equals + 1);
    const std::string_view name = text.substr(0, equals);
    name_ = std::string(whole.substr(0, whole.find('=')));
    if (name == "help") return verb(Verb::kHelp);
    if (name == "version") return verb(Verb::kVersion);
    if (name == "deep") return flag(options_.deep);
    if (name.size() == 1) return letter(name.front());
    if (whole.starts_with("--")) return unknown(whole);
    for (const char c : name) {
      if (std::string_view("nNqsHjh").find(c) == std::string_view::npos) return unknown(whole);
      IMEX_CHECK_OK(letter(c));
    }
    return {};
  }

  Result<void> letter(char c) {
    switch (c) {
      case 'q':
        return verb(Verb::kStatus);
      case 's':
        return verb(Verb::kSubscribe);
      case 'N':
        return verb(Verb::kDomain);
      case 'n':
        return verb(Verb::kMonitor);
      case 'h':
        return verb(Verb::kHelp);
      case 'H':
        return flag(options_.host_names);
      case 'j':
        return flag(options_.json);
      case 'd':
      case 'm':
        return fail(
            Errc::kInvalidArgument,
            fmt::format("-{} exists in NVIDIA's tool, but its meaning is not documented, so "
                        "it is not served here",
                        c),
            "use -q, -s, -N or -n");
      case 'c': {
        options_.config_given = true;
        return value(options_.config, "a file");
      }
      case 'u':
        return value(options_.socket, "the path of a socket");
      case 'i':
        return address();
      case 't':
        return timeout();
      default:
        return unknown(name_);
    }
  }

  Result<void> verb(Verb verb) {
    if (inline_value_) return no_value();
    const bool is_help = verb == Verb::kHelp || verb == Verb::kVersion;
    if (verb_ && *verb_ != verb && !is_help && !helped_) {
      return fail(Errc::kInvalidArgument, "only one of -n, -N, -q, -s can be asked for", kSeeHelp);
    }
    if (!helped_) verb_ = verb;
    helped_ = helped_ || is_help;
    return {};
  }
  Result<void> flag(bool& target) {
    if (inline_value_) return no_value();
    target = true;
    return {};
  }
  Result<void> no_value() const {
    return fail(Errc::kInvalidArgument, fmt::format("{} takes no value", name_), kSeeHelp);
  }
  Result<void> unknown(std::string_view text) const {
    return fail(Errc::kInvalidArgument, fmt::format("unknown argument '{}'", text), kSeeHelp);
  }
  Result<void> value(std::string& target, const char* what) {
    if (inline_value_) {
      target = *std::exchange(inline_value_, std::nullopt);
    } else if (at_ < arguments_.size()) {
      target = arguments_[at_++];
    } else {
      target.clear();
    }
    if (!target.empty()) return {};
    return fail(Errc::kInvalidArgument, fmt::format("{} needs {}", name_, what), kSeeHelp);
  }
  Result<void> address() {
    IMEX_CHECK_OK(value(options_.address, "an address and a port: -i 10.0.0.11 50005"));
    std::string port;
    IMEX_CHECK_OK(value(port, "an address and a port: -i 10.0.0.11 50005"));
    const auto number = parse_integer(port, 1, 65'535);
    if (!number) return fail(Error(number.error()).context(name_ + ": port"));
    options_.port = static_cast<std::uint16_t>(*number);
    return {};
  }
  Result<void> timeout() {
    std::string text;
    IMEX_CHECK_OK(value(text, "milliseconds"));
    constexpr std::int64_t kDayMs = 24LL * 3600 * 1000;
    const auto number = parse_integer(text, 1, kDayMs);
    if (!number) return fail(Error(number.error()).context(name_ + ": milliseconds"));
    options_.timeout = std::chrono::milliseconds(*number);
    return {};
  }

  Result<void> check() {
    const auto wrong = [](const char* text) {
      return fail(Errc::kInvalidArgument, text, kSeeHelp);
    };
    if (!verb_) return wrong("one of -n, -N, -q, -s is needed");
    options_.verb = *verb_;
    if (helped_) return {};
    const int places = (options_.config_given ? 1 : 0) + (options_.socket.empty() ? 0 : 1) +
                       (options_.address.empty() ? 0 : 1);
    if (places > 1) return wrong("only one of -i, -u, -c can be given");
    const bool domain = *verb_ == Verb::kDomain || *verb_ == Verb::kMonitor;
    if ((options_.json || options_.host_names) && !domain)
      return wrong("-j and -H go with -n and -N");
    if (options_.timeout && *verb_ != Verb::kSubscribe) return wrong("-t goes with -s");
    if (options_.deep && *verb_ != Verb::kStatus) return wrong("--deep goes with -q");
    return {};
  }

  std::span<const char* const> arguments_;
  std::size_t at_ = 0;
  std::string name_;  // of the argument at hand, dashes included
  std::optional<std::string> inline_value_;
  std::optional<Verb> verb_;
  bool helped_ = false;
  Options options_;
};

}  // namespace

Result<Options> parse_options(std::span<const char* const> arguments) {
  return Parser(arguments).run();
}

const char* help_text() noexcept {
  return R"(nvidia-imex-ctl: asks node daemons (imexd, nvidia-imex) what they see

usage: nvidia-imex-ctl [-i IP PORT | -u SOCKET | -c CONFIG] <-q | -s | -N | -n> [options]

what to print
  -q          status of the local daemon, one word
  --deep      with -q: also its health; exit status 1 when something is wrong
  -s          status of the local daemon and its changes until it is READY
  -t MS       with -s: give up after this many milliseconds
  -N          status of all nodes, their connections and the domain
  -n          the same, again after each change; changes are marked with *
  -j          with -N and -n: as JSON
  -H          with -N and -n: with host names
  -d, -m      exist in NVIDIA's tool; their meaning is not documented, they are refused

whom to ask
  -c FILE     the daemon of this configuration (default /etc/nvidia-imex/config.cfg)
  -i IP PORT  the daemon at this address
  -u SOCKET   the daemon at this Unix socket; --u=SOCKET works as well

  -h, --help, --version

exit status: 0 an answer was printed; 1 the daemon could not be asked; 64 wrong use;
65 bad configuration; 66 bad node list

examples
  nvidia-imex-ctl -q
  nvidia-imex-ctl -N -j -c /imexd/imexd.cfg
  nvidia-imex-ctl -q --u=/etc/nvidia-imex/imex_ctrl.sock
  nvidia-imex-ctl -s -t 30000 -i 10.0.0.11 50005
)";
}

}  // namespace imex::ctl
