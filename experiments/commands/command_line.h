#pragma once
// How the commands come to the command line: each file of this folder adds its own to the program. The parser stays
// behind this file.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/file/load.h"
#include "kernels/error.h"

namespace CLI {
class App;
}

namespace paceline {

struct OptionRules {
  bool required = false;
  bool shown = false;                                     // help shows the value that it has now
  const char* type = nullptr;                             // of the value, in help: "KEY=VALUE"
  std::vector<std::string> words = {};                    // the only values
  std::function<std::vector<std::string>()> offers = {};  // for completion, where there are others
  std::optional<double> least = {}, most = {};            // of a number
  int fewest = 1, greatest = 1;                           // values of a list; 1 and 1: any number of them
};

/// An option or an argument, as help and completion show it.
struct OptionFacts {
  std::vector<std::string> names;  // "--set", "-k"; of an argument none
  std::string help;
  bool takes_value = false;
  std::vector<std::string> words;  // values to offer
};

/// A command of the program; a handle, which may be copied. Names: "--pairs", "-k,--count", or of an argument "run".
class Command {
 public:
  Command below(const std::string& name, const std::string& help) const;

  /// T: a text, a path, a number, each perhaps optional, or a list of texts or paths, which takes all values behind it.
  template <class T>
  const Command& option(const std::string& name, T& value, const std::string& help,
                        const OptionRules& rules = {}) const;
  const Command& flag(const std::string& name, bool& value, const std::string& help,
                      const OptionRules& rules = {}) const;
  /// May stand several times and takes one value each time.
  const Command& repeated(const std::string& name, std::vector<std::string>& values, const std::string& help,
                          const char* type) const;
  /// Whatever follows is not ours.
  const Command& rest(std::vector<std::string>& words) const;
  /// A command below must be named.
  const Command& needs_one_below() const;
  const Command& hidden() const;
  const Command& footer(const std::string& text) const;
  /// What the command does; the last thing to add, as it owns what the options write to.
  void calls(std::function<ExitCode()> body) const;

  std::string name() const;
  std::string help() const;
  std::vector<OptionFacts> options() const;
  std::vector<Command> commands() const;         // below; without hidden ones
  const std::vector<std::string>& argv() const;  // as typed, the program's name first

 private:
  friend class Program;
  struct Shared;  // of all commands of a program
  Command(CLI::App* app, Shared* shared) : app_(app), shared_(shared) {}

  CLI::App* app_;
  Shared* shared_;
};

/// The program's own command, with --version.
class Program {
 public:
  Program(std::vector<std::string> argv, const std::string& help, const std::string& version);
  ~Program();
  Command command();
  /// Runs the command that `args` name. Throws Error(usage), in our words, for what cannot be.
  ExitCode run(std::vector<std::string> args);

 private:
  std::unique_ptr<Command::Shared> shared_;
  std::unique_ptr<CLI::App> app_;
};

void add_run_command(const Command& program);          // run
void add_plan_command(const Command& program);         // plan
void add_resume_command(const Command& program);       // resume
void add_runs_commands(const Command& program);        // list, show, report, tag, note, rm
void add_trace_command(const Command& program);        // trace
void add_compare_command(const Command& program);      // compare
void add_regress_command(const Command& program);      // regress
void add_doctor_command(const Command& program);       // doctor
void add_models_command(const Command& program);       // models
void add_model_commands(const Command& program);       // inflate, generate, tokenize, verify-model
void add_convert_command(const Command& program);      // convert
void add_certificate_command(const Command& program);  // certificate
void add_explain_command(const Command& program);      // explain
void add_init_command(const Command& program);         // init
void add_config_commands(const Command& program);      // config show, expand, validate, diff, schema, docs, records
void add_completion_command(const Command& program);   // completion
void add_import_command(const Command& program);       // import-flags

/// What changes an experiment: --set, --profile, --axis, --only.
void add_override_options(const Command& command, ConfigOverrides& overrides);
/// The experiment file and what changes it.
void add_config_options(const Command& command, std::filesystem::path& config, ConfigOverrides& overrides);

}  // namespace paceline
