#include "completion.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>

#include "os/file.hpp"
#include "tree.hpp"

namespace imex::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

const CommandWords& find(const std::vector<CommandWords>& all,
                         const std::vector<std::string>& path) {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.path == path; });
  EXPECT_NE(at, all.end());
  return *at;
}

/// What bash offers for a command line whose last word is being typed.
std::vector<std::string> complete_in_bash(const std::string& script,
                                          const std::vector<std::string>& words) {
  const auto directory = os::make_temporary_directory("completion");
  EXPECT_TRUE(directory);
  const std::string file = *directory + "/script";
  std::ofstream(file) << script;
  std::string list;
  for (const auto& word : words) list += " '" + word + "'";
  const std::string command = "bash -c 'source " + file + "; COMP_WORDS=(" + std::string("\"$@\"") +
                              "); COMP_CWORD=$(($# - 1)); _imex_complete; " +
                              "printf \"%s\\n\" \"${COMPREPLY[@]}\"' bash" + list;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::vector<std::string> offered;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    std::string word(line.data());
    word.erase(word.find_last_not_of('\n') + 1);
    if (!word.empty()) offered.push_back(word);
  }
  EXPECT_TRUE(os::remove_tree(*directory));
  return offered;
}

TEST(CommandWordsTest, EveryCommandOfTheProgramIsThere) {
  CommandTree tree;
  const auto words = command_words(tree.app());
  EXPECT_THAT(
      find(words, {}).subcommands,
      ElementsAre("domain", "channel", "config", "status", "partition", "instance", "vpc", "rack",
                  "generate", "chat", "perplexity", "model", "bench", "completion"));
  EXPECT_THAT(find(words, {"partition"}).subcommands,
              ElementsAre("list", "show", "create", "update", "delete"));
  EXPECT_THAT(find(words, {"rack", "fault"}).subcommands, ElementsAre("add", "list", "clear"));
  EXPECT_THAT(find(words, {"channel"}).subcommands, ElementsAre("list", "grant", "release"));
}

TEST(CommandWordsTest, OptionsOfTheProgramServeEveryCommandOnce) {
  CommandTree tree;
  const auto words = command_words(tree.app());
  const auto& grant = find(words, {"channel", "grant"});
  const auto count = [&](const std::string& name) {
    return std::count_if(
        grant.options.begin(), grant.options.end(), [&](const OptionWords& option) {
          return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
        });
  };
  EXPECT_EQ(count("--format"), 1);
  EXPECT_EQ(count("--gpus"), 1);
  EXPECT_EQ(count("--help"), 1);
}

TEST(CommandWordsTest, ChoicesAndPathsComeFromTheParser) {
  CommandTree tree;
  const auto words = command_words(tree.app());
  const auto& root = find(words, {});
  const auto option = [&](const std::string& name) {
    return *std::find_if(
        root.options.begin(), root.options.end(),
        [&](const OptionWords& candidate) { return candidate.names.front() == name; });
  };
  EXPECT_THAT(option("--format").choices, ElementsAre("table", "json", "jsonl"));
  EXPECT_TRUE(option("--state-dir").is_path);
  EXPECT_FALSE(option("--quiet").takes_value);
  EXPECT_THAT(find(words, {"completion"}).arguments, ElementsAre("bash", "zsh", "fish"));
}

TEST(BashCompletionTest, OffersSubcommandsValuesAndOptions) {
  CommandTree tree;
  const std::string script = completion_script(tree.app(), Shell::kBash);
  EXPECT_THAT(complete_in_bash(script, {"imex", "chan"}), ElementsAre("channel"));
  EXPECT_THAT(complete_in_bash(script, {"imex", "channel", ""}),
              IsSupersetOf({"list", "grant", "release", "--format"}));
  EXPECT_THAT(complete_in_bash(script, {"imex", "--format", "j"}), ElementsAre("json", "jsonl"));
  EXPECT_THAT(complete_in_bash(script, {"imex", "--format", "json", "channel", "grant", "--g"}),
              ElementsAre("--gpus", "--gpu-uids"));
  EXPECT_THAT(complete_in_bash(script, {"imex", "domain", ""}), Not(Contains("grant")));
  EXPECT_THAT(complete_in_bash(script, {"imex", "completion", "f"}), ElementsAre("fish"));
  EXPECT_THAT(complete_in_bash(script, {"imex", "inst"}), ElementsAre("instance"));
  EXPECT_THAT(complete_in_bash(script, {"imex", "instance", "create", "--domain", "r"}),
              ElementsAre("require"));
  EXPECT_THAT(complete_in_bash(script, {"imex", "rack", "fault", ""}),
              IsSupersetOf({"add", "list", "clear"}));
  EXPECT_THAT(complete_in_bash(script, {"imex", "vpc", "update", "v", "--no-d"}),
              ElementsAre("--no-default-partition"));
}

TEST(CompletionScriptTest, ZshAndFishNameEveryCommandAndOption) {
  CommandTree tree;
  const std::string zsh = completion_script(tree.app(), Shell::kZsh);
  const std::string fish = completion_script(tree.app(), Shell::kFish);
  EXPECT_THAT(zsh, HasSubstr("#compdef imex"));
  for (const CommandWords& command : command_words(tree.app())) {
    for (const auto& name : command.subcommands) {
      EXPECT_THAT(zsh, HasSubstr(name));
      EXPECT_THAT(fish, HasSubstr("-a " + name + " -d "));
    }
    for (const auto& option : command.options) {
      EXPECT_THAT(zsh, HasSubstr(option.names.front()));
      EXPECT_THAT(fish, HasSubstr(" -l " + option.names.front().substr(2)));
    }
  }
}

TEST(CompletionScriptTest, UnknownShellNamesTheKnownOnes) {
  const auto shell = parse_shell("tcsh");
  ASSERT_FALSE(shell);
  EXPECT_EQ(shell.error().code, Errc::kInvalidArgument);
  EXPECT_THAT(shell.error().hint, HasSubstr("bash, zsh or fish"));
}

}  // namespace
}  // namespace imex::cli
