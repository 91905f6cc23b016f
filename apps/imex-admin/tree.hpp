/// The tree of commands: what `imex-admin` parses with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "commands.hpp"

namespace imex::admin {

/// Exit status of every command.
inline constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2;

/// Owns the parser and the values that it fills. Neither copied nor moved: the parser points into
/// it.
class CommandTree {
 public:
  CommandTree();
  CommandTree(const CommandTree&) = delete;
  CommandTree& operator=(const CommandTree&) = delete;
  ~CommandTree();

  [[nodiscard]] CLI::App& app() noexcept { return app_; }
  /// Parses and runs. Returns the exit status.
  int run(int argc, const char* const* argv);

 private:
  using Action = std::function<Result<Output>(const Session&)>;
  CLI::App* group(CLI::App* parent, const std::string& name, const std::string& help,
                  const std::string& example);
  /// A command that does something: its help ends with the examples, its action runs after parsing.
  /// `unsafe`: it bypasses the REST API.
  CLI::App* leaf(CLI::App* parent, const std::string& name, const std::string& help,
                 const std::string& examples, Action action, bool unsafe = false);
  void add_globals();
  void add_credential();
  void add_endpoints();
  void add_logical_partition();
  void add_nvl_partition();
  void add_machine();
  void add_instance();
  void explain_missing(Error& error) const;
  [[nodiscard]] std::vector<std::string> words_of(int argc, const char* const* argv) const;
  [[nodiscard]] Result<void> check_globals();
  [[nodiscard]] Result<void> deliver(const Output& output) const;
  int report(const Error& error, int exit_status) const;

  CLI::App app_;
  Action action_;
  bool unsafe_ = false;  ///< the chosen command bypasses the REST API

  ConnectionOptions connection_;
  std::string format_name_ = "ascii-table", output_file_, timeout_ = "30s", unsafe_user_;
  Format format_ = Format::kAsciiTable;
  int page_size_ = 100;
  bool quiet_ = false;

  CredentialOptions credential_;
  EndpointOptions endpoint_;
  ShowOptions show_;
  std::string name_, tenant_org_, id_, config_;
  PopulateOptions populate_;
  bool despite_type_ = false;
};

}  // namespace imex::admin
