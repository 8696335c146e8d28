#pragma once
// How the commands come to the command line: each file of this folder adds its own to the program.

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "experiments/config/load.h"
#include "kernels/error.h"

namespace paceline {

/// What commands share beside their own options. It outlives the parsing, as do their options, which the callbacks own.
struct CommandLine {
  std::vector<std::string> argv;  // as typed, the program's name first
  ExitCode code = ExitCode::ok;   // set by the callback of the command that ran
};

void add_run_command(CLI::App& app, CommandLine& line);          // run
void add_plan_command(CLI::App& app, CommandLine& line);         // plan
void add_resume_command(CLI::App& app, CommandLine& line);       // resume
void add_runs_commands(CLI::App& app, CommandLine& line);        // list, show, report, tag, note, rm
void add_trace_command(CLI::App& app, CommandLine& line);        // trace
void add_compare_command(CLI::App& app, CommandLine& line);      // compare
void add_regress_command(CLI::App& app, CommandLine& line);      // regress
void add_doctor_command(CLI::App& app, CommandLine& line);       // doctor
void add_models_command(CLI::App& app, CommandLine& line);       // models
void add_model_commands(CLI::App& app, CommandLine& line);       // inflate, generate, tokenize, verify-model
void add_convert_command(CLI::App& app, CommandLine& line);      // convert
void add_certificate_command(CLI::App& app, CommandLine& line);  // certificate
void add_explain_command(CLI::App& app, CommandLine& line);      // explain

void add_init_command(CLI::App& app, CommandLine& line);        // init
void add_config_commands(CLI::App& app, CommandLine& line);     // config show, expand, validate, diff, schema, docs
void add_completion_command(CLI::App& app, CommandLine& line);  // completion
void add_import_command(CLI::App& app, CommandLine& line);      // import-flags

/// An option that may stand several times and takes one value each time: CLI11's own would let `--set a=1 file.json`
/// take the file along.
CLI::Option* add_repeatable(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                            const std::string& help);

/// What changes an experiment: --set, --profile, --axis, --only.
void add_override_options(CLI::App& command, ConfigOverrides& overrides);
/// The experiment file and what changes it.
void add_config_options(CLI::App& command, std::filesystem::path& config, ConfigOverrides& overrides);

}  // namespace paceline
