// runexp import-flags

#include "experiments/commands/command_line.h"
#include "experiments/config/vllm_flags.h"

namespace paceline {
namespace {

ExitCode import_command(const std::vector<std::string>& arguments) {
  // One quoted text, or the flags as the shell has split them.
  const std::vector<std::string> words = arguments.size() == 1 ? split_shell_words(arguments.front()) : arguments;
  if (words.empty()) {
    fail(ExitCode::usage,
         "import-flags: expected vLLM's flags, as in runexp import-flags \"--tensor-parallel-size 2 --seed 1\"");
  }
  fmt::print("{}", imported_text(import_vllm_flags(words)));
  return ExitCode::ok;
}

}  // namespace

void add_import_command(const Command& program) {
  const auto words = std::make_shared<std::vector<std::string>>();
  program.below("import-flags", "print an experiment for a command line of vLLM").rest(*words).calls([words] {
    return import_command(*words);
  });
}

}  // namespace paceline
