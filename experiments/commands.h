#pragma once
// The commands of `runexp`. Each writes data to stdout, everything else to stderr, and returns an exit code or throws
// Error; main.cpp parses the command line and maps errors to codes.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config_load.h"
#include "experiments/verify_model.h"
#include "kernels/error.h"

namespace paceline {

inline constexpr const char* kVersion = "0.1.0";

struct RunCommand {
  std::filesystem::path config;
  ConfigOverrides overrides;
  std::filesystem::path results_root = "results";
  std::string progress = "auto";  // auto | live | plain | quiet
  std::vector<std::string> argv;
};
ExitCode run_command(const RunCommand& command);

enum class BaselineUse : uint8_t { compare, update };

/// Runs the experiment and compares token hashes and counters with `baseline` (or writes it). Exit code 7 when they
/// differ; the differences go to stdout, one a line.
ExitCode regress_command(const RunCommand& command, const std::filesystem::path& baseline, BaselineUse use);

/// Cells, skips with reasons, loads and memory per rank; nothing is loaded.
ExitCode plan_command(const std::filesystem::path& config, const ConfigOverrides& overrides);

enum class DoctorOutput : uint8_t { text, json };

/// What a run will find on this machine, in seconds (doctor.h). The exit code of the first thing that is
/// broken; ok when there is none, and without GPUs.
ExitCode doctor_command(const std::filesystem::path& results_root, DoctorOutput output);

/// Checkpoints below configs/models and PACELINE_MODELS, with their sizes.
ExitCode models_command();

struct InflateCommand {
  std::string parent;  // builtin:NAME or a folder
  std::string shape;   // NAME of configs/shapes or a .json file
  std::filesystem::path out;
};
/// Writes the checkpoint that engine.target.inflate would load, as a Hugging Face folder.
ExitCode inflate_command(const InflateCommand& command);

struct GenerateCommand {
  std::string prompt;
  std::string model = "builtin:target-7m";
  std::string proposer = "ngram";
  std::string draft = "builtin:draft-600k";
  int num_speculative_tokens = 5;
  int max_tokens = 96;
  double temperature = 0;
  uint64_t seed = 1;
  int tp = 1;
  int pp = 1;
  bool raw = false;  // no chat template
};
ExitCode generate_command(const GenerateCommand& command);

/// Token ids, one line a record of the file.
ExitCode tokenize_command(const std::filesystem::path& tokenizer, const std::filesystem::path& file);

ExitCode verify_model_command(VerifyModelOptions options);

/// Text for `runexp explain TOPIC`; throws Error(usage) listing the topics for an unknown one.
ExitCode explain_command(const std::string& topic);

/// How often the user has asked to stop (SIGINT, SIGTERM, SIGHUP) since install_interrupt_handler().
int num_interrupts();
/// By the last signal: 130 after SIGINT, else 143.
ExitCode interrupt_exit_code();
void install_interrupt_handler();
/// A mapped file that is cut while it is read then ends the program with one line that names it, and exit code 3.
void install_fault_handler();

}  // namespace paceline
