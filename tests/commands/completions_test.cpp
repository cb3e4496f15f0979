#include "tuner/commands/completions.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tuner/commands/command.h"

namespace moetune {
namespace {

struct Program {
  CLI::App app{"what it is"};
  std::vector<Command> commands;

  Program() {
    app.name("moetune");
    for (const auto add :
         {add_report_command, add_list_command, add_export_command, add_compare_command, add_worker_command})
      commands.push_back(add(app));
    commands.push_back(add_measure_command(app));
    commands.push_back(add_tune_command(app, {}));
  }
};

const CommandFacts& command_named(const std::vector<CommandFacts>& commands, const std::string& name) {
  return *std::ranges::find(commands, name, &CommandFacts::name);
}

// The words that bash would offer for word `at` of the line.
std::string bash_offers(const Program& program, const TemporaryDirectory& folder, const std::string& line,
                        int at) {
  std::ofstream(folder / "completions") << bash_completions(command_facts(program.app));
  // compopt speaks to the completion in progress, and here there is none.
  std::ofstream(folder / "script") << "source '" + (folder / "completions") +
                                          "'; compopt() { :; }; COMP_WORDS=(" + line +
                                          "); COMP_CWORD=" + std::to_string(at) +
                                          "; _moetune; echo \"${COMPREPLY[@]}\"";
  std::FILE* pipe = ::popen(("bash '" + (folder / "script") + "'").c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  ::pclose(pipe);
  return text;
}

TEST(Completions, KnowTheProgramsOwnOptions) {
  const Program program;
  const std::vector<CommandFacts> commands = command_facts(program.app);
  ASSERT_EQ(commands.size(), 6U);  // the hidden worker is none of them
  const CommandFacts& report = command_named(commands, "report");
  const auto option = [](const CommandFacts& command, const std::string& flag) {
    return *std::ranges::find_if(command.options, [&](const OptionFacts& each) {
      return each.place == flag || std::ranges::find(each.flags, flag) != each.flags.end();
    });
  };
  EXPECT_EQ(option(report, "--gate").choices, (std::vector<std::string>{"lossless", "int8", "int4", "none"}));
  EXPECT_TRUE(option(report, "RUN").takes_file);
  EXPECT_EQ(option(report, "--json").type, "");
  EXPECT_EQ(option(command_named(commands, "list"), "what").choices.front(), "models");
}

TEST(Completions, EveryFlagStandsInAllFourTexts) {
  const Program program;
  const std::vector<CommandFacts> commands = command_facts(program.app);
  const std::string man = man_page(program.app, "moetune 1.0");
  const std::string bash = bash_completions(commands);
  const std::string zsh = zsh_completions(commands);
  const std::string fish = fish_completions(commands);
  int flags = 0;
  for (const CommandFacts& command : commands)
    for (const OptionFacts& option : command.options)
      for (const std::string& flag : option.flags) {
        ++flags;
        std::string in_roff;
        for (const char c : flag) in_roff += c == '-' ? std::string("\\-") : std::string(1, c);
        EXPECT_TRUE(has_text(man, in_roff));
        EXPECT_TRUE(has_text(bash, flag));
        EXPECT_TRUE(has_text(zsh, "'" + flag + "["));
        EXPECT_TRUE(has_text(fish, flag.starts_with("--") ? "-l " + flag.substr(2) : "-s " + flag.substr(1)));
      }
  EXPECT_GT(flags, 15);
}

TEST(ManPage, SaysDefaultsAndHasTheUsualSections) {
  Program program;
  program.app.footer("Exit codes: 0 done.\n\nStart here.");
  const std::string man = man_page(program.app, "moetune 1.0");
  EXPECT_TRUE(has_text(man, "What to print (default: shell)"));
  EXPECT_TRUE(has_text(man, "\\fBPROFILE\\fR \\fIFILE|DIR|NAME\\fR"));
  EXPECT_TRUE(has_text(man, ".SH EXIT STATUS\nExit codes: 0 done.\n"));
  EXPECT_TRUE(has_text(man, "\\fBXDG_CACHE_HOME\\fR"));
  EXPECT_TRUE(has_text(man, "\\fBruns/\\fR"));
  EXPECT_TRUE(has_text(man, ".SH NOTES\nStart here."));
}

TEST(Completions, BashOffersCommandsFlagsAndValues) {
  const Program program;
  const TemporaryDirectory folder;
  const auto offered = [&](const std::string& words, int at) {
    return bash_offers(program, folder, words, at);
  };
  EXPECT_EQ(offered("moetune ex", 1), "export\n");
  EXPECT_EQ(offered("moetune report --ga", 2), "--gate\n");
  EXPECT_EQ(offered("moetune report --gate int", 3), "int8 int4\n");
  EXPECT_EQ(offered("moetune list serv", 2), "servers\n");
}

// What 'moetune list KIND --names' prints is asked for when somebody types, so that a profile of today is
// offered too.
TEST(Completions, NamesComeFromTheProgramAsOneTypes) {
  const Program program;
  const TemporaryDirectory folder;
  const std::string moetune = folder / "moetune";
  std::ofstream(moetune)
      << "#!/bin/sh\n[ \"$1 $3\" = 'list --names' ] && printf '%s\\n' \"first-$2\" second other\n";
  std::filesystem::permissions(moetune, std::filesystem::perms::owner_all);
  const auto offered = [&](const std::string& words, int at) {
    return bash_offers(program, folder, "'" + moetune + "' " + words, at);
  };
  EXPECT_EQ(offered("export --server ''", 3), "first-servers second other\n");
  EXPECT_EQ(offered("export --model s", 3), "second\n");
  EXPECT_EQ(offered("export ''", 2), "first-profiles second other\n");
  EXPECT_EQ(offered("measure --set f", 3), "first-knobs=\n");
  EXPECT_EQ(offered("export --kt-method ''", 3), "\n");  // a NAME of which there is no list
}

TEST(Completions, EveryListIsOfferedSomewhereAndExists) {
  const Program program;
  const std::vector<CommandFacts> commands = command_facts(program.app);
  std::set<std::string> offered;
  for (const CommandFacts& command : commands)
    for (const OptionFacts& option : command.options)
      if (!option.listed.kind.empty()) offered.insert(option.listed.kind);
  EXPECT_EQ(offered, (std::set<std::string>{"hardware", "knobs", "metrics", "models", "profiles", "searchers",
                                            "servers", "spaces", "workloads"}));
  const std::vector<OptionFacts> of_list = command_named(commands, "list").options;
  const OptionFacts& what = *std::ranges::find(of_list, "what", &OptionFacts::place);
  for (const std::string& kind : offered)
    EXPECT_NE(std::ranges::find(what.choices, kind), what.choices.end());
}

}  // namespace
}  // namespace moetune
