// What the documents say to type: every block marked `sh` is run as it stands, and every command and option that they
// name in passing exists.
//
// A block runs in a folder that looks like the checkout (links to what is in it, a results/ of its own), the blocks of
// one document one after the other. Experiments are measured once, in `tests/run.sh --long` as often as they ask for.
// A block that cannot run in a test says why after `sh`: ```sh not run: 16 GB.

#include <cstdlib>
#include <map>
#include <regex>
#include <set>

#include "tests/cli/runexp.h"
#include "tests/support/long_samples.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;

struct Block {
  int line = 0;      // of its first line, from 1
  std::string mark;  // what stands behind ```
  std::string text;
};

struct Document {
  std::string name;  // relative to the root
  std::vector<Block> blocks;
  std::vector<std::pair<int, std::string>> inline_code;  // line, text between single backticks
};

Document read_document(const std::string& name) {
  Document document{.name = name, .blocks = {}, .inline_code = {}};
  static const std::regex code("`([^`]+)`");
  bool in_block = false;
  int number = 0;
  for (const std::string& line : lines_of(read_file(kSource / name))) {
    ++number;
    if (line.starts_with("```")) {
      in_block = !in_block;
      if (in_block) document.blocks.push_back({.line = number + 1, .mark = line.substr(3), .text = ""});
      continue;
    }
    if (in_block) {
      document.blocks.back().text += line + "\n";
      continue;
    }
    for (std::sregex_iterator it(line.begin(), line.end(), code), end; it != end; ++it)
      document.inline_code.emplace_back(number, (*it)[1].str());
  }
  return document;
}

std::vector<std::string> document_names() {
  std::vector<std::string> names = {"README.md", "CONTRIBUTING.md", "results/README.md"};
  for (const char* const folder : {"docs", "configs/workloads"})
    for (const auto& entry : fs::directory_iterator(kSource / folder))
      if (entry.path().extension() == ".md") names.push_back(fs::relative(entry.path(), kSource).string());
  std::sort(names.begin(), names.end());
  return names;
}

/// A folder that looks like the checkout from inside; `build/release` is the build under test, which measures once only
/// unless long samples are drawn.
class LooksLikeTheCheckout {
 public:
  LooksLikeTheCheckout() {
    for (const auto& entry : fs::directory_iterator(kSource)) {
      const std::string name = entry.path().filename().string();
      if (name != "results" && name != "build" && name != "configs" && !name.starts_with("."))
        fs::create_symlink(entry.path(), path() / name);
    }
    for (const char* const folder : {"results", "configs"}) {  // a reader may write into these
      fs::create_directories(path() / folder);
      for (const auto& entry : fs::directory_iterator(kSource / folder))
        if (folder == std::string("configs") || entry.path().filename() == "baselines")
          fs::create_symlink(entry.path(), path() / folder / entry.path().filename());
    }
    if (long_samples()) {
      fs::create_directories(path() / "build");
      fs::create_symlink(binary_dir(), path() / "build" / "release");
    } else {
      write_short_runexp();
    }
  }
  const fs::path& path() const { return dir_.path(); }

 private:
  /// A runexp that measures an experiment once, whatever its file asks for.
  void write_short_runexp() const {
    fs::create_directories(path() / "build" / "release");
    const fs::path script = path() / "build" / "release" / "runexp";
    write_file(script, fmt::format("#!/bin/sh\ncase \"$1\" in\n"
                                   "  run|*.json|*.yaml) exec \"{0}\" \"$@\" --set measure.repetitions=1 ;;\n"
                                   "  *) exec \"{0}\" \"$@\" ;;\nesac\n",
                                   (binary_dir() / "runexp").string()));
    fs::permissions(script, fs::perms::owner_all);
  }

  TempDir dir_;
};

/// What `runexp COMMAND --help` says above its examples; of runexp itself without a command.
std::string list_of_help(const std::string& help) {
  return help.substr(0, std::min(help.find("\nExample"), help.find("\nA configuration file alone")));
}

/// The words of list_of_help(): options and commands.
const std::set<std::string>& words_of_help(const std::vector<std::string>& command) {
  static std::map<std::vector<std::string>, std::set<std::string>> known;
  const auto [it, is_new] = known.try_emplace(command);
  if (is_new) {
    std::vector<std::string> args = command;
    args.push_back("--help");
    const std::string help = list_of_help(runexp(args).out);
    static const std::regex word("[-A-Za-z0-9_]+");
    for (std::sregex_iterator w(help.begin(), help.end(), word), end; w != end; ++w) it->second.insert(w->str());
  }
  return it->second;
}

/// The command of a call, "config diff"; empty where it is a configuration file or an option.
std::vector<std::string> command_of(const std::string& call) {
  std::smatch word;
  if (!std::regex_search(call, word, std::regex("^([a-z-]+)(?![a-z-]*[./])")) || word[1].str().starts_with("-"))
    return {};
  std::vector<std::string> command = {word[1]};
  const std::string rest = word.suffix();
  if (command[0] == "config" && std::regex_search(rest, word, std::regex("^ ([a-z]+)"))) command.push_back(word[1]);
  return command;
}

/// Every command and option of "CALL", the text behind "runexp ", exists.
void expect_known(const std::string& call) {
  static const std::regex option("(?:^|[ \\[])(--[a-z][-a-z]*)");
  const std::vector<std::string> command = command_of(call);
  if (command.empty()) return;
  EXPECT_TRUE(words_of_help({}).contains(command[0])) << "no command " << command[0];
  if (!words_of_help({}).contains(command[0]) || command[0] == "import-flags") return;
  for (std::sregex_iterator it(call.begin(), call.end(), option), end; it != end; ++it)
    EXPECT_TRUE(words_of_help(command).contains((*it)[1].str())) << "no option " << (*it)[1];
}

TEST(Help, ExamplesNameWhatThereIs) {
  static const std::regex example("\n  runexp ([^\n]*)"), entry("\n  ([a-z-]+) +[a-z]");
  const std::string program = runexp({"--help"}).out, list = list_of_help(program);
  std::vector<std::string> pages = {program, runexp({"config", "diff", "--help"}).out};
  for (std::sregex_iterator it(list.begin(), list.end(), entry), end; it != end; ++it)
    pages.push_back(runexp({(*it)[1].str(), "--help"}).out);
  int examples = 0;
  for (const std::string& page : pages) {
    for (const std::string& line : lines_of(page)) EXPECT_LE(line.size(), 130u) << line;
    for (std::sregex_iterator it(page.begin(), page.end(), example), end; it != end; ++it, ++examples) {
      const std::string call = (*it)[1];
      SCOPED_TRACE(call);
      expect_known(call);
      static const std::regex config("configs/[a-z0-9_]+\\.json");
      std::smatch file;
      if (std::regex_search(call, file, config) && call.find('>') == std::string::npos) {
        EXPECT_TRUE(fs::exists(kSource / file.str()));
      }
    }
  }
  EXPECT_GE(examples, 20);
}

class Documents : public ::testing::TestWithParam<std::string> {};

TEST_P(Documents, CommandsRunAsTheyStand) {
  if (time_factor() > 1) GTEST_SKIP() << "whole experiments: in release builds only";
  const Document document = read_document(GetParam());
  const LooksLikeTheCheckout checkout;
  const std::string path =
      std::string("PATH=") + (checkout.path() / "build/release").string() + ":" + std::getenv("PATH");
  for (const Block& block : document.blocks) {
    SCOPED_TRACE(document.name + ":" + std::to_string(block.line) + "\n" + block.text);
    if (!block.mark.starts_with("sh")) {
      EXPECT_FALSE(std::regex_search(block.text, std::regex("(^|\n)(build/release/)?runexp ")))
          << "a command that no test runs: mark the block sh";
      continue;
    }
    if (block.mark != "sh") {
      EXPECT_TRUE(block.mark.starts_with("sh not run: ")) << "say why: ```sh not run: REASON";
      continue;
    }
    const ProcessResult result = run_process(
        {"/bin/bash", "-euo", "pipefail", "-c", block.text},
        {.folder = checkout.path(), .environment = {path, "CI=1"}, .timeout_s = 600, .streams = Streams::pipes});
    EXPECT_EQ(result.exit_code, 0) << described(result);
  }
}

TEST_P(Documents, NameCommandsAndOptionsThatExist) {
  const Document document = read_document(GetParam());
  static const std::regex call("(?:^|[ /])runexp (.*)");
  for (const auto& [line, text] : document.inline_code) {
    SCOPED_TRACE(document.name + ":" + std::to_string(line) + ": " + text);
    std::smatch match;
    if (std::regex_search(text, match, call)) expect_known(match[1]);
  }
}

std::string document_name(const ::testing::TestParamInfo<std::string>& document) {
  return std::regex_replace(document.param, std::regex("[^A-Za-z0-9]"), "_");
}

INSTANTIATE_TEST_SUITE_P(All, Documents, ::testing::ValuesIn(document_names()), document_name);

}  // namespace
}  // namespace paceline::test
