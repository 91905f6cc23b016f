#include "completion.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace imex::cli {
namespace {

/// CLI11 writes the values of an IsMember validator as "{a,b,c}" into the type's name.
std::vector<std::string> choices_of(const std::string& type_name) {
  const auto open = type_name.find('{');
  const auto close = type_name.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type_name.substr(open + 1, close - open - 1), ',');
}

bool names_path(const std::string& type_name) {
  return type_name.find("FILE") != std::string::npos ||
         type_name.find("DIR") != std::string::npos || type_name.find("PATH") != std::string::npos;
}

OptionWords option_words(const CLI::Option& option) {
  OptionWords words;
  for (const auto& name : option.get_lnames()) words.names.push_back("--" + name);
  for (const auto& name : option.get_snames()) words.names.push_back("-" + name);
  words.help = option.get_description();
  words.takes_value = option.get_items_expected_max() > 0;
  words.choices = choices_of(option.get_type_name());
  words.is_path = words.takes_value && words.choices.empty() && names_path(option.get_type_name());
  return words;
}

void collect(const CLI::App& app, const std::vector<std::string>& path,
             std::vector<OptionWords> inherited, std::vector<CommandWords>& out) {
  CommandWords words{path, app.get_description(), {}, std::move(inherited), {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      if (words.arguments.empty()) words.arguments = choices_of(option->get_type_name());
    } else if (option->nonpositional() && !option->get_group().empty()) {
      const OptionWords own = option_words(*option);
      // Each command has its own --help: it takes the place of the parent's.
      std::erase_if(words.options,
                    [&](const OptionWords& known) { return known.names == own.names; });
      words.options.push_back(own);
    }
  }
  std::vector<const CLI::App*> visible;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty() && !sub->get_name().empty()) visible.push_back(sub);
  }
  for (const CLI::App* sub : visible) words.subcommands.push_back(sub->get_name());
  out.push_back(words);
  for (const CLI::App* sub : visible) {
    auto below = path;
    below.push_back(sub->get_name());
    collect(*sub, below, words.options, out);
  }
}

/// Inside single quotes of a POSIX shell.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> words_of(const CommandWords& command) {
  std::vector<std::string> words = command.subcommands;
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  for (const auto& option : command.options) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return words;
}

/// Options whose next word is a value: "--format)" with its choices or files.
std::string value_cases(const std::vector<CommandWords>& commands, std::string_view choices_action,
                        std::string_view path_action) {
  std::vector<std::string> seen;
  std::string cases;
  for (const auto& command : commands) {
    for (const auto& option : command.options) {
      const std::string pattern = fmt::format("{}", fmt::join(option.names, "|"));
      if (!option.takes_value || std::find(seen.begin(), seen.end(), pattern) != seen.end())
        continue;
      seen.push_back(pattern);
      cases +=
          option.is_path
              ? fmt::format("    {}) {}; return ;;\n", pattern, path_action)
              : fmt::format(
                    "    {}) {}; return ;;\n", pattern,
                    fmt::format(fmt::runtime(choices_action),
                                shell_quoted(fmt::format("{}", fmt::join(option.choices, " ")))));
    }
  }
  return cases;
}

/// The commands as cases on the words typed so far: "'channel grant') candidates=... ;;"
std::string path_cases(const std::vector<CommandWords>& commands) {
  std::string cases;
  for (const auto& command : commands) {
    cases += fmt::format("    {}) candidates={} ;;\n",
                         shell_quoted(fmt::format("{}", fmt::join(command.path, " "))),
                         shell_quoted(fmt::format("{}", fmt::join(words_of(command), " "))));
  }
  return cases;
}

/// Words that are subcommands somewhere; all others (options, values) do not extend the path.
std::string known_commands(const std::vector<CommandWords>& commands) {
  std::vector<std::string> names;
  for (const auto& command : commands) {
    if (!command.path.empty()) names.push_back(command.path.back());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return fmt::format("{}", fmt::join(names, "|"));
}

std::string bash_script(const std::string& program, const std::vector<CommandWords>& commands) {
  return fmt::format(R"(# bash completion for {0}; load with: source <({0} completion bash)
_{0}_complete() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} path= candidates= i
  case $previous in
{1}  esac
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      {2}) path+="${{path:+ }}${{COMP_WORDS[i]}}" ;;
    esac
  done
  case $path in
{3}  esac
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
}}
complete -F _{0}_complete {0}
)",
                     program,
                     value_cases(commands, R"(COMPREPLY=($(compgen -W {} -- "$current")))",
                                 R"(COMPREPLY=($(compgen -f -- "$current")))"),
                     known_commands(commands), path_cases(commands));
}

std::string zsh_script(const std::string& program, const std::vector<CommandWords>& commands) {
  return fmt::format(R"(#compdef {0}
# zsh completion for {0}; load with: source <({0} completion zsh)
_{0}() {{
  local previous=${{words[CURRENT-1]}} line= choices= candidates= word
  case $previous in
{1}  esac
  for word in ${{words[2,CURRENT-1]}}; do
    case $word in
      {2}) line+="${{line:+ }}$word" ;;
    esac
  done
  case $line in
{3}  esac
  compadd -- ${{=candidates}}
}}
compdef _{0} {0}
)",
                     program,
                     value_cases(commands, "choices={}; compadd -- ${{=choices}}", "_files"),
                     known_commands(commands), path_cases(commands));
}

std::string fish_condition(const CommandWords& command) {
  if (command.path.empty()) return "__fish_use_subcommand";
  std::string condition;
  for (const auto& word : command.path) {
    condition +=
        fmt::format("{}__fish_seen_subcommand_from {}", condition.empty() ? "" : "; and ", word);
  }
  if (!command.subcommands.empty()) {
    condition += fmt::format("; and not __fish_seen_subcommand_from {}",
                             fmt::join(command.subcommands, " "));
  }
  return condition;
}

std::string fish_option(const std::string& program, const std::string& condition,
                        const OptionWords& option) {
  std::string line = fmt::format("complete -c {} -n {}", program, shell_quoted(condition));
  for (const auto& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (option.takes_value) line += option.is_path ? " -r -F" : " -x";
  if (!option.choices.empty()) {
    line += " -a " + shell_quoted(fmt::format("{}", fmt::join(option.choices, " ")));
  }
  return line + " -d " + shell_quoted(option.help) + '\n';
}

std::string fish_script(const std::string& program, const std::vector<CommandWords>& commands) {
  std::string script = fmt::format(
      "# fish completion for {0}; load with: {0} completion fish | source\ncomplete -c {0} -f\n",
      program);
  for (const auto& command : commands) {
    const std::string condition = fish_condition(command);
    for (const auto& name : command.subcommands) {
      auto path = command.path;
      path.push_back(name);
      const auto sub = std::find_if(commands.begin(), commands.end(),
                                    [&](const CommandWords& c) { return c.path == path; });
      script += fmt::format("complete -c {} -n {} -a {} -d {}\n", program, shell_quoted(condition),
                            name, shell_quoted(sub->help));
    }
    if (!command.arguments.empty()) {
      script += fmt::format("complete -c {} -n {} -a {}\n", program, shell_quoted(condition),
                            shell_quoted(fmt::format("{}", fmt::join(command.arguments, " "))));
    }
    for (const auto& option : command.options) script += fish_option(program, condition, option);
  }
  return script;
}

}  // namespace

std::vector<CommandWords> command_words(const CLI::App& root) {
  std::vector<CommandWords> commands;
  collect(root, {}, {}, commands);
  return commands;
}

std::string completion_script(const CLI::App& root, Shell shell) {
  const auto commands = command_words(root);
  switch (shell) {
    case Shell::kBash:
      return bash_script(root.get_name(), commands);
    case Shell::kZsh:
      return zsh_script(root.get_name(), commands);
    case Shell::kFish:
      break;
  }
  return fish_script(root.get_name(), commands);
}

Result<Shell> parse_shell(std::string_view name) {
  if (name == "bash") return Shell::kBash;
  if (name == "zsh") return Shell::kZsh;
  if (name == "fish") return Shell::kFish;
  return fail(Errc::kInvalidArgument, fmt::format("no completion for shell '{}'", name),
              "choose bash, zsh or fish");
}

}  // namespace imex::cli
