#include "controller_access.hpp"

#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "json/json.hpp"
#include "os/file.hpp"
#include "os/process.hpp"

namespace imex::cli {
namespace {

constexpr std::size_t kStackBytesMax = 1U << 20U, kTokenBytesMax = 64U << 10U;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// What `imex up` wrote: {controller: {url, org, token_file, site_id}, rack: {control}}.
struct Stack {
  ControllerOptions controller;
  std::string rack_control;
};

Result<std::string> text_of(const nlohmann::json& json, std::string_view object,
                            std::string_view key) {
  const nlohmann::json* const found = json::find(json, object);
  if (found == nullptr) return std::string();
  IMEX_TRY(auto text, json::optional_string(*found, key));
  return std::move(text).value_or(std::string());
}

/// No file: all empty.
Result<Stack> read_stack(const std::string& path) {
  Stack stack;
  auto text = os::read_file(path, kStackBytesMax);
  if (!text) {
    if (text.error().code == Errc::kNotFound) return stack;
    return fail(std::move(text).error());
  }
  const auto read = [&]() -> Result<void> {
    IMEX_TRY(const auto json, json::parse(*text, path));
    IMEX_TRY(stack.controller.url, text_of(json, "controller", "url"));
    IMEX_TRY(stack.controller.org, text_of(json, "controller", "org"));
    IMEX_TRY(stack.controller.token_file, text_of(json, "controller", "token_file"));
    IMEX_TRY(stack.controller.authority, text_of(json, "controller", "authority"));
    IMEX_TRY(stack.controller.site, text_of(json, "controller", "site_id"));
    IMEX_TRY(stack.rack_control, text_of(json, "rack", "control"));
    return {};
  };
  if (auto done = read(); !done) {
    Error error = std::move(done).error().context(path);
    error.hint = "'imex down' and 'imex up' write it anew";
    return fail(std::move(error));
  }
  return stack;
}

std::string first_of(const std::string& a, const std::string& b, const std::string& c = {}) {
  return !a.empty() ? a : !b.empty() ? b : c;
}

std::string state_directory(const std::string& given) {
  if (!given.empty()) return given;
  if (auto named = variable("IMEX_STATE_DIR"); !named.empty()) return named;
  if (os::user_id() == 0) return "/var/lib/imex";
  if (const auto xdg = variable("XDG_STATE_HOME"); !xdg.empty()) return xdg + "/imex";
  return variable("HOME") + "/.local/state/imex";
}

/// The token in a file, without the line end that editors put there.
Result<log::Secret> read_token(const std::string& path) {
  auto text = os::read_file(path, kTokenBytesMax);
  if (!text) {
    Error error = std::move(text).error().context("read the controller's token");
    error.hint = "name the file with --token-file or IMEX_TOKEN_FILE";
    return fail(std::move(error));
  }
  text->erase(text->find_last_not_of(" \t\r\n") + 1);
  // What comes behind a line end would become a header of its own.
  if (text->empty() || text->find_first_of("\r\n") != std::string::npos) {
    return fail(Errc::kInvalidArgument, fmt::format("{} holds no token: want one line", path));
  }
  return log::Secret(std::move(*text));
}

}  // namespace

Result<ControllerAccess> locate_controller(const AccessInputs& inputs) {
  const ControllerOptions& given = inputs.given;
  const ControllerOptions& named = inputs.variables;
  IMEX_TRY(const Stack stack, read_stack(inputs.stack_file));
  const bool by_hand = !given.url.empty() || !named.url.empty();
  const ControllerOptions file = by_hand ? ControllerOptions{} : stack.controller;

  ControllerAccess access{
      .url = first_of(given.url, named.url, file.url),
      .org = first_of(given.org, named.org, stack.controller.org),
      .token_file = first_of(given.token_file, named.token_file, file.token_file),
      .authority = first_of(given.authority, named.authority, file.authority),
      .site = first_of(given.site, named.site, file.site),
      .source = !given.url.empty()   ? "--controller"
                : !named.url.empty() ? "IMEX_CONTROLLER_URL"
                                     : inputs.stack_file};
  if (access.url.empty()) {
    return fail(Errc::kNotFound,
                fmt::format("no controller known: neither --controller nor IMEX_CONTROLLER_URL is "
                            "given, and {} names none",
                            inputs.stack_file),
                "start one with 'imex up', or name one with --controller URL");
  }
  if (access.org.empty()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("whose objects at {}: no org is given", access.url),
                "name it with --org or IMEX_ORG");
  }
  return access;
}

Result<std::string> locate_rack(const std::string& given, const std::string& named,
                                const std::string& stack_file) {
  if (const auto path = first_of(given, named); !path.empty()) return path;
  IMEX_TRY(const Stack stack, read_stack(stack_file));
  if (!stack.rack_control.empty()) return stack.rack_control;
  return fail(Errc::kNotFound,
              fmt::format("no simulated rack known: neither --control nor IMEX_RACK_CONTROL is "
                          "given, and {} names none",
                          stack_file),
              "start one with 'imex up', or name its control socket with --control PATH");
}

std::string stack_file_of(const std::string& state_dir) {
  return state_directory(state_dir) + "/stack.json";
}

AccessInputs access_inputs(const Global& global, const ControllerOptions& given) {
  AccessInputs inputs;
  inputs.given = given;
  inputs.variables.url = variable("IMEX_CONTROLLER_URL");
  inputs.variables.org = variable("IMEX_ORG");
  inputs.variables.token_file = variable("IMEX_TOKEN_FILE");
  inputs.variables.authority = variable("IMEX_CONTROLLER_CA");
  inputs.variables.site = variable("IMEX_SITE");
  // Kubernetes injects such addresses for a Service of that name; they mean nothing to us.
  if (inputs.variables.url.starts_with("tcp://")) inputs.variables.url.clear();
  inputs.stack_file = stack_file_of(global.state_dir);
  return inputs;
}

Result<Controller> connect_controller(const Global& global, const ControllerOptions& given) {
  IMEX_TRY(ControllerAccess access, locate_controller(access_inputs(global, given)));
  partition::client::Options options;
  options.url = access.url;
  options.org = access.org;
  options.authority = access.authority;
  options.timeout = global.timeout;
  if (!access.token_file.empty()) {
    IMEX_TRY(options.token, read_token(access.token_file));
  }
  auto client = partition::client::Client::make(std::move(options));
  if (!client) return fail(std::move(client).error().context(access.source));
  return Controller{std::move(*client), std::move(access.site)};
}

}  // namespace imex::cli
