#pragma once
// How the commands come to the command line: each file of this folder adds its own to the program. The parser stays
// behind this file.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "experiments/config/file/load.h"
#include "experiments/run/supervise.h"
#include "kernels/error.h"

namespace CLI {
class App;
}  // namespace CLI

namespace paceline {

/// What an option writes to: a flag, a number, a text or a path, each perhaps optional; a list takes all values behind
/// it.
using OptionTarget = std::variant<bool*, int*, int64_t*, double*, std::string*, std::filesystem::path*,
                                  std::optional<int>*, std::optional<double>*, std::optional<std::string>*,
                                  std::vector<std::string>*, std::vector<std::filesystem::path>*>;

struct OptionRules {
  bool required = false;
  bool shown = false;                           // help shows the value that it has now
  bool repeated = false;                        // a list: one value each time
  const char* type = nullptr;                   // of the value, in help: "KEY=VALUE"
  std::vector<std::string> words = {};          // the only values; help lists them
  std::vector<std::string> offers = {};         // for completion, where there are others
  std::optional<double> least = {}, most = {};  // of a number
  int fewest = 0, greatest = 0;                 // values of a list; 0: any number of them
};

/// An option or an argument, for completion.
struct OptionFacts {
  std::vector<std::string> names;  // "--pairs", "-k"; none: an argument
  std::string help;
  bool takes_value = false;
  std::vector<std::string> words;  // known values
};

/// A command of the program; a handle, which may be copied.
class Command {
 public:
  struct Program;
  Command(CLI::App& app, Program& program) : app_(&app), program_(&program) {}

  /// A command below this one, which must then be named. Without help it is hidden.
  Command below(const std::string& name, const std::string& help) const;
  /// name: "--pairs", "-k,--count", or of an argument "run".
  const Command& option(const std::string& name, OptionTarget value, const std::string& help,
                        const OptionRules& rules = {}) const;
  /// Words that are neither an option nor an argument of ours, in their order. usage: as what help names them.
  const Command& others(std::vector<std::string>* words, const std::string& usage) const;
  /// Whatever follows is not ours. usage: likewise; empty: help does not name it.
  const Command& rest(std::vector<std::string>* words, const std::string& usage = {}) const;
  /// What help says below the options. Lines that begin with "  runexp " are commands, and a test reads them.
  const Command& footer(const std::string& text) const;
  /// What the command does; the last thing to add, as it owns what the options write to.
  void calls(std::function<ExitCode()> body) const;

  std::string name() const;
  std::string help() const;
  std::vector<OptionFacts> options() const;
  std::vector<Command> commands() const;         // below it, without hidden ones
  const std::vector<std::string>& argv() const;  // as typed, the program's name first

 private:
  CLI::App* app_;
  Program* program_;
};

void add_run_commands(const Command& program);        // run, resume
void add_plan_command(const Command& program);        // plan
void add_runs_commands(const Command& program);       // list, show, trace, report, tag, note, rm
void add_compare_command(const Command& program);     // compare
void add_regress_command(const Command& program);     // regress
void add_machine_commands(const Command& program);    // doctor, models
void add_model_commands(const Command& program);      // inflate, convert
void add_generate_command(const Command& program);    // generate
void add_tokenize_command(const Command& program);    // tokenize
void add_verify_commands(const Command& program);     // verify-model, certificate
void add_serve_command(const Command& program);       // serve
void add_config_commands(const Command& program);     // explain, init, config, import-flags
void add_completion_command(const Command& program);  // completion

// What several commands take; each returns `command`.

/// What changes an experiment: --set, --profile, --axis, --only.
const Command& add_override_options(const Command& command, ConfigOverrides& overrides);
/// The experiment file and what changes it.
const Command& add_config_options(const Command& command, std::filesystem::path& config, ConfigOverrides& overrides);

/// A recorded run that a command is about.
struct NamedRun {
  std::filesystem::path root = "results";
  std::string name = "last";  // as find_run() takes it
};
const Command& add_results_option(const Command& command, std::filesystem::path& root);
const Command& add_run_argument(const Command& command, NamedRun& run, bool required = false);
/// A cell as commands find it.
struct CellName {
  std::string id, hash;
};
inline constexpr const char* kCellHelp = "cell: its id, the beginning of it, or 4+ characters of its hash";
/// Index of the one that `name` means, as kCellHelp says. Throws Error(usage): none, or several and none by its whole
/// id; `where` begins the message.
size_t find_cell(const std::vector<CellName>& cells, const std::string& name, const std::string& where);

inline constexpr const char* kRunHelp = "last, last~N, @TAG, a prefix of an id or hash, or a folder";

/// A command that runs an experiment: `run`, `resume`, `regress`.
struct RunCommand {
  std::filesystem::path config;
  ConfigOverrides overrides;
  std::filesystem::path results_root = "results";
  std::string progress = "auto";  // auto | live | plain | jsonl | quiet
  std::vector<std::string> argv;
  bool in_process = false;  // no process of its own: for debuggers
};
/// --results, --ui and --in-process; fills argv. Returns `command`.
const Command& add_run_options(const Command& command, RunCommand& run);

/// `work` under run_supervised(), or in this process where the command asks for that; then the end has no folder.
SupervisedEnd in_a_process(const RunCommand& command, const std::function<ExitCode(const SupervisedTask& task)>& work,
                           std::optional<std::filesystem::path> folder = {});

/// Whether the end of a run is told on standard output, as a person who ran it wants it.
enum class EndOfRun : uint8_t { told, silent };

/// `run` as one process of it does it: from the configuration, or going on where another one was killed.
ExitCode run_as_task(const RunCommand& command, const SupervisedTask& task, const LoadedConfig& loaded, EndOfRun end);

}  // namespace paceline
