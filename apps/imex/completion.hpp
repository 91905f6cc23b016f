/// Shell completion scripts, generated from the tree of commands and options that the program
/// itself parses with, so that the two cannot drift apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.hpp"

namespace imex::cli {

enum class Shell : std::uint8_t { kBash, kZsh, kFish };

/// One option of a command, as completion needs it.
struct OptionWords {
  std::vector<std::string> names;  ///< "--format", "-f"
  std::string help;
  bool takes_value = false;
  bool is_path = false;              ///< completes file names
  std::vector<std::string> choices;  ///< of the value
};
/// One command: its path from the program ("imex channel grant" -> {"channel", "grant"}).
struct CommandWords {
  std::vector<std::string> path;
  std::string help;
  std::vector<std::string> subcommands;
  std::vector<OptionWords> options;    ///< own ones and those of all commands above
  std::vector<std::string> arguments;  ///< choices of the first positional argument
};

/// All visible commands, parents before children.
[[nodiscard]] std::vector<CommandWords> command_words(const CLI::App& root);
[[nodiscard]] std::string completion_script(const CLI::App& root, Shell shell);
/// Errors: kInvalidArgument with the known names.
[[nodiscard]] Result<Shell> parse_shell(std::string_view name);

}  // namespace imex::cli
