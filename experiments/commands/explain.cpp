// runexp explain

#include "experiments/commands/command_line.h"

namespace paceline {
namespace {

/// Throws Error(usage) listing the topics for an unknown one.
ExitCode explain_command(const std::string& topic) {
  if (topic == "exit-codes") {
    fmt::print(
        "0    ok\n1    finished, some cells failed\n2    usage or config\n3    model, tokenizer or data file\n4    "
        "device or memory\n"
        "5    rank or communication\n6    results store\n7    a correctness gate said no\n8    a timing gate said "
        "no\n9    inconclusive under --strict\n"
        "130  SIGINT\n143  SIGTERM\n");
    return ExitCode::ok;
  }
  fail(ExitCode::usage, "explain: unknown topic \"{}\"; topics: exit-codes", topic);
}

}  // namespace

void add_explain_command(CLI::App& app, CommandLine& line) {
  const auto topic = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("explain", "explain a topic: exit-codes");
  command->add_option("topic", *topic)->required();
  command->callback([topic, &line] { line.code = explain_command(*topic); });
}

}  // namespace paceline
