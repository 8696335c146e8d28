// The command line of runexp. A config path alone means `run`.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <limits>
#include <system_error>

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "experiments/commands.h"
#include "experiments/config_tree.h"
#include "experiments/suggest.h"

namespace {

using namespace paceline;

const std::vector<std::string> kCommands = {"run",      "plan",     "doctor",       "models",  "inflate",
                                            "generate", "tokenize", "verify-model", "regress", "explain"};

/// Names from the user may hold newlines and escape sequences; the message stays one line.
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)
      out += c;
    else
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

/// `runexp configs/x.json …` is `runexp run configs/x.json …`; a word that is neither a command nor a file gets a hint.
std::vector<std::string> with_implied_run(std::vector<std::string> args) {
  if (args.empty() || args.front().starts_with("-")) return args;
  const std::string& first = args.front();
  if (std::find(kCommands.begin(), kCommands.end(), first) != kCommands.end()) return args;
  const bool looks_like_file = first.find('/') != std::string::npos || first.find('.') != std::string::npos;
  if (!looks_like_file)
    fail(ExitCode::usage, "unknown command \"{}\"{}; commands: {}", first, did_you_mean(first, kCommands),
         fmt::join(kCommands, ", "));
  args.insert(args.begin(), "run");
  return args;
}

/// `_` and `-` are the same in option names.
void normalise_options(std::vector<std::string>& args) {
  for (std::string& arg : args) {
    if (!arg.starts_with("--")) continue;
    const size_t end = std::min(arg.find('='), arg.size());
    std::replace(arg.begin(), arg.begin() + std::ptrdiff_t(end), '_', '-');
  }
}

/// What CLI11 complains about, in our words where its own mislead.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  const std::string help = at == &app ? "runexp --help" : fmt::format("runexp {} --help", at->get_name());
  if (const std::vector<std::string> rest = app.remaining(true); !rest.empty()) {
    const auto option = std::find_if(rest.begin(), rest.end(),
                                     [](const std::string& word) { return word.size() > 1 && word.front() == '-'; });
    if (option == rest.end())
      return fmt::format("unexpected argument \"{}\" (quote text with spaces); see {}", rest.front(), help);
    std::vector<std::string> known;
    for (const CLI::Option* each : at->get_options()) {
      for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
    }
    return fmt::format("unknown option \"{}\"{}; see {}", *option,
                       did_you_mean(option->substr(0, option->find('=')), known), help);
  }
  if (at == &app)
    return fmt::format("name a command ({}) or a configuration file; see {}", fmt::join(kCommands, ", "), help);
  return fmt::format("{}; see {}", error.what(), help);
}

/// CLI11's own would let `--set a=1 file.json` take the file along.
CLI::Option* add_repeatable(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                            const std::string& help) {
  return command.add_option(name, values, help)->allow_extra_args(false);
}

void add_config_options(CLI::App& command, std::filesystem::path& config, ConfigOverrides& overrides) {
  command.add_option("config", config, "experiment file (.json with comments, or .yaml)")->required();
  add_repeatable(command, "--set", overrides.set, "KEY=VALUE: override one value, e.g. --set speculation.ngram.max=5");
  command.add_option("--profile", overrides.profile, "apply profiles.NAME of the file, e.g. quick");
  add_repeatable(command, "--axis", overrides.axis, "KEY=VALUES: replace or add an axis, e.g. --axis k=1..8");
  command.add_option("--only", overrides.only, "run the cells for which the expression holds, e.g. 'tp==2 && k>3'");
}

ExitCode dispatch(std::vector<std::string> args, std::vector<std::string> argv) {
  CLI::App app{"Paceline: does speculative decoding pay on this model, this traffic and this machine?", "runexp"};
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("paceline {}", kVersion));
  ExitCode code = ExitCode::ok;

  RunCommand run{.config = {}, .overrides = {}, .argv = std::move(argv)};
  CLI::App* run_app = app.add_subcommand("run", "run an experiment and write results/<time>_<name>_<hash>/");
  add_config_options(*run_app, run.config, run.overrides);
  run_app->add_option("--results", run.results_root, "folder for results")->capture_default_str();
  run_app->add_option("--ui", run.progress, "auto, live, plain or quiet")->capture_default_str();
  run_app->callback([&] { code = run_command(run); });

  RunCommand regress{.config = {}, .overrides = {}, .argv = run.argv};
  std::filesystem::path baseline = "results/baselines/cpu.json";
  bool update_baseline = false;
  CLI::App* regress_app =
      app.add_subcommand("regress", "run an experiment and compare token hashes and counters with a baseline");
  add_config_options(*regress_app, regress.config, regress.overrides);
  regress_app->add_option("--baseline", baseline, "baseline file")->capture_default_str();
  regress_app->add_flag("--update-baseline", update_baseline, "write the baseline instead of comparing");
  regress_app->add_option("--results", regress.results_root, "folder for results")->capture_default_str();
  regress_app->add_option("--ui", regress.progress, "auto, live, plain or quiet")->capture_default_str();
  regress_app->callback(
      [&] { code = regress_command(regress, baseline, update_baseline ? BaselineUse::update : BaselineUse::compare); });

  std::filesystem::path plan_config;
  ConfigOverrides plan_overrides;
  CLI::App* plan_app = app.add_subcommand("plan", "show cells, skips with reasons and memory per rank; run nothing");
  add_config_options(*plan_app, plan_config, plan_overrides);
  plan_app->callback([&] { code = plan_command(plan_config, plan_overrides); });

  std::filesystem::path doctor_results = "results";
  bool doctor_json = false;
  CLI::App* doctor_app = app.add_subcommand(
      "doctor", "look at build, machine, models, results folder and GPUs, measure them, and say what to mend");
  doctor_app->add_flag("--json", doctor_json, "print JSON (results/README.md)");
  doctor_app->add_option("--results", doctor_results, "folder for results")->capture_default_str();
  doctor_app->callback(
      [&] { code = doctor_command(doctor_results, doctor_json ? DoctorOutput::json : DoctorOutput::text); });

  app.add_subcommand("models", "list the checkpoints that are at hand")->callback([&] { code = models_command(); });

  InflateCommand inflate;
  CLI::App* inflate_app = app.add_subcommand(
      "inflate", "write a small checkpoint in a big shape: the same text at the big model's cost, for timing");
  inflate_app->add_option("small", inflate.parent, "checkpoint to start from: builtin:NAME or a folder")->required();
  inflate_app->add_option("shape", inflate.shape, "NAME of configs/shapes, or a .json file like those")->required();
  inflate_app->add_option("out", inflate.out, "folder to make; it must not exist")->required();
  inflate_app->callback([&] { code = inflate_command(inflate); });

  GenerateCommand generate;
  CLI::App* generate_app = app.add_subcommand("generate", "continue one prompt and print the text");
  generate_app->add_option("prompt", generate.prompt, "the user's message")->required();
  generate_app->add_option("--model", generate.model, "builtin:NAME or a folder")->capture_default_str();
  generate_app->add_option("--proposer", generate.proposer, "none, ngram or draft")->capture_default_str();
  generate_app->add_option("--draft", generate.draft, "draft model")->capture_default_str();
  generate_app->add_option("-k,--num-speculative-tokens", generate.num_speculative_tokens, "drafts per step")
      ->capture_default_str()
      ->check(CLI::Range(0, 64));
  generate_app->add_option("--max-tokens", generate.max_tokens)->capture_default_str()->check(CLI::Range(1, 1'000'000));
  generate_app->add_option("--temperature", generate.temperature)->capture_default_str()->check(CLI::Range(0.0, 10.0));
  generate_app->add_option("--seed", generate.seed)
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  generate_app->add_option("--tp", generate.tp)->capture_default_str()->check(CLI::Range(1, 64));
  generate_app->add_option("--pp", generate.pp)->capture_default_str()->check(CLI::Range(1, 64));
  generate_app->add_flag("--raw", generate.raw, "no chat template");
  generate_app->callback([&] { code = generate_command(generate); });

  std::filesystem::path tokenizer, text_file;
  CLI::App* tokenize_app = app.add_subcommand("tokenize", "print token ids, one line a record");
  tokenize_app->add_option("--tokenizer", tokenizer, "folder or tokenizer.json")->required();
  tokenize_app->add_option("--file", text_file, "text, one record a line")->required();
  tokenize_app->callback([&] { code = tokenize_command(tokenizer, text_file); });

  VerifyModelOptions verify;
  CLI::App* verify_app = app.add_subcommand("verify-model", "compare a checkpoint with the golden.json beside it");
  verify_app->add_option("dir", verify.model_dir, "checkpoint folder")->required();
  verify_app->add_option("--golden", verify.golden, "reference file, if not beside the checkpoint");
  verify_app->add_option("--tp", verify.tp)->capture_default_str()->check(CLI::Range(1, 64));
  verify_app->add_option("--pp", verify.pp)->capture_default_str()->check(CLI::Range(1, 64));
  verify_app->add_option("--dtype", verify.dtype, "weights in memory; goldens are computed in float32")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}));
  verify_app
      ->add_option("--max-logit-error", verify.max_logit_error,
                   "largest difference that passes; by default 1e-4, in 16-bit types 1/64 of the largest logit")
      ->check(CLI::NonNegativeNumber);
  verify_app->callback([&] { code = verify_model_command(verify); });

  std::string topic;
  CLI::App* explain_app = app.add_subcommand("explain", "explain a topic: exit-codes");
  explain_app->add_option("topic", topic)->required();
  explain_app->callback([&] { code = explain_command(topic); });

  try {
    std::reverse(args.begin(), args.end());  // CLI11 takes the last argument first
    app.parse(args);
  } catch (const CLI::Success& done) {  // --help, --version
    app.exit(done);
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::usage, "{}", usage_message(app, error));
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  std::vector<std::string> typed(argv, argv + argc);
  try {
    install_fault_handler();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("runexp", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
    spdlog::set_pattern("%H:%M:%S %l %v");
    normalise_options(args);
    const ExitCode code = dispatch(with_implied_run(std::move(args)), std::move(typed));
    errno = 0;
    const bool written = std::fflush(stdout) == 0 && !std::ferror(stdout);
    if (!written && errno != EPIPE && errno != 0)
      fail(ExitCode::store, "standard output: {}", std::generic_category().message(errno));
    return int(code);
  } catch (const ConfigError& error) {  // its lines carry their own file, line and "error:"
    fmt::print(stderr, "{}\n", error.what());
    return int(error.code());
  } catch (const Error& error) {
    fmt::print(stderr, "runexp: error: {}\n", one_line(error.what()));
    return int(error.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "runexp: error: out of memory; lower engine.kv_cache.memory_fraction or use a smaller model\n");
    return int(ExitCode::device);
  } catch (const std::exception& error) {
    fmt::print(stderr, "runexp: error: {}\n", one_line(error.what()));
    return int(ExitCode::device);
  }
}
