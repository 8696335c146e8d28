// runexp run, resume: an experiment in a process of its own, shown while it works, summed up at its end.

#include <cstdio>
#include <unistd.h>

#include <spdlog/spdlog.h>

#include "engine/util/counted.h"
#include "experiments/commands/command_line.h"
#include "experiments/commands/commands.h"
#include "experiments/config/keys/schema.h"
#include "experiments/report/text/text.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/read.h"
#include "experiments/results/files/run_names.h"
#include "experiments/run/runner.h"
#include "experiments/ui/output_columns.h"
#include "experiments/ui/progress.h"

namespace paceline {

namespace {

/// What names the run to a command in the same folder: its id, or its path where the results lie elsewhere than
/// commands look for them.
std::string name_of_run(const std::filesystem::path& results_root, const std::filesystem::path& folder) {
  std::error_code ignored;
  const bool is_usual = std::filesystem::equivalent(results_root, RunCommand().results_root, ignored);
  return is_usual ? folder.filename().string() : folder.string();
}

/// What a user types to see the run again.
std::string show_command(const std::filesystem::path& results_root, const std::filesystem::path& folder) {
  std::string name = name_of_run(results_root, folder);
  const std::vector<std::string> runs = list_runs(results_root);
  if (!runs.empty() && runs.back() == name) name = "last";
  return reproduce_command({.argv = {"runexp", "show", name}});
}

/// Two runs at a time on one machine disturb each other's times. Empty where no other run below `root` is under way.
std::string other_run_text(const std::filesystem::path& root, const std::optional<ResumeOptions>& own) {
  for (const std::string& id : list_runs(root)) {
    std::error_code ignored;
    const bool is_own = own && std::filesystem::equivalent(root / id, own->recorded.run.folder, ignored);
    if (!is_own && RunLock::is_held(root / id))
      return fmt::format(
          "{}: a process is working on this run, too: on one machine the two disturb each other's times\n",
          (root / id).string());
  }
  return "";
}

/// What `asked` has beside `recorded`, as arguments of --axis that keep every recorded cell: the values of the axis so
/// far, or the one value there was, stay in front. Zipped axes are taken as they are asked for: their values belong
/// together. Throws Error(usage) where there was no one value: an expression computed the key.
std::vector<std::string> grown_axes(const LoadedConfig& recorded, const ExperimentConfig& asked) {
  std::vector<std::string> arguments;
  for (const SweepAxis& axis : asked.sweep.axes) {
    const SweepAxis* const known = recorded.config.sweep.find_axis(axis.path);
    std::vector<ConfigJson> values = axis.values;
    if (!asked.sweep.is_zipped(axis.path)) {
      if (!known && recorded.deferred.contains(axis.path))
        fail(ExitCode::usage,
             "--axis {}: an expression gives this key its value in each recorded cell, and an axis would replace them: "
             "begin another run for it",
             axis.path);
      values = known ? known->values : std::vector<ConfigJson>{find_key(axis.path)->read(recorded.config)};
      for (const ConfigJson& value : axis.values)
        if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
    if (known && values == known->values) continue;
    arguments.push_back(fmt::format("{}={}", axis.path, ConfigJson(values).dump()));
  }
  return arguments;
}

/// Runs `loaded` to its end and prints its summary to standard output (EndOfRun::silent: nothing there).
ExitCode execute_run(const RunCommand& command, const SupervisedTask& task, const LoadedConfig& loaded,
                     std::optional<ResumeOptions> resume, EndOfRun end) {
  const ProgressMode mode = parse_progress_mode(command.progress);
  const bool events_to_output = mode == ProgressMode::jsonl && end == EndOfRun::told;
  const std::unique_ptr<Progress> progress =
      make_progress(mode, events_to_output ? standard_output_terminal() : standard_error_terminal());
  auto logger = std::make_shared<spdlog::logger>("runexp", make_progress_log_sink(*progress));
  spdlog::set_default_logger(logger);
  install_interrupt_handler();
  if (!task.is_restart) {
    if (const std::string other = other_run_text(command.results_root, resume); !other.empty())
      progress->message("warning: " + other);
  }
  const bool is_supervised = bool(task.tell_wants_new_process);
  const auto resume_command_of = [&](const std::filesystem::path& folder) {
    return reproduce_command({.argv = {"runexp", "resume", name_of_run(command.results_root, folder)}});
  };
  std::filesystem::path made;
  const RunOptions options = {
      .results_root = command.results_root,
      .argv = command.argv,
      .interrupts = num_interrupts,
      .pauses = num_pauses,
      .resume = std::move(resume),
      .after_device_error = is_supervised ? AfterDeviceError::new_process : AfterDeviceError::new_ranks,
      .on_folder = [&](const std::filesystem::path& folder) { task.tell_folder(made = folder); }};
  RunOutcome outcome = [&] {
    try {
      return run_experiment(loaded, *progress, options);
    } catch (const Error& error) {
      if (error.code() != ExitCode::store || made.empty()) throw;
      fail(ExitCode::store, "{}; continue with: {}", error.what(), resume_command_of(made));
    }
  }();
  if (outcome.wants_new_process) {
    task.tell_wants_new_process();
    return outcome.exit_code;
  }
  const ExitCode code = outcome.exit_code == ExitCode::interrupted ? interrupt_exit_code() : outcome.exit_code;
  const std::string show = show_command(command.results_root, outcome.result.folder);
  const std::string resume_it = resume_command_of(outcome.result.folder);
  const auto say_what_is_missing = [&outcome, &resume_it] {
    if (outcome.store_error.empty()) return;
    std::fputs(fmt::format("runexp: error: {}; what was measured is in the journal: {} writes the rest\n",
                           outcome.store_error, resume_it)
                   .c_str(),
               stderr);
  };
  if (mode == ProgressMode::jsonl) {
    say_what_is_missing();
    progress->finished(outcome.result.info.status, outcome.result.folder, int(code));
    return code;
  }
  if (!outcome.store_error.empty()) outcome.result.folder.clear();  // there is no report to name
  if (end == EndOfRun::told) {
    const RunSummary summary = summarize(outcome.result);
    const bool color = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    // Not fmt::print, which throws: a reader that has gone does not spoil a run whose results are on disk.
    std::fputs(end_of_run_text(outcome.result, summary, color ? TextColor::on : TextColor::off, show, output_columns())
                   .c_str(),
               stdout);
    std::fflush(stdout);
  }
  if (outcome.exit_code == ExitCode::interrupted)
    std::fputs(fmt::format("runexp: interrupted; continue with: {}\n", resume_it).c_str(), stderr);
  say_what_is_missing();
  spdlog::set_default_logger(spdlog::default_logger()->clone("quiet"));
  spdlog::default_logger()->sinks().clear();
  return code;
}

/// Goes on with a recorded run as it was configured, with the axes of `axis` (as --axis takes them) in place of its
/// own.
ExitCode resume_run(const RunCommand& command, const SupervisedTask& task, ResumeOptions resume,
                    const std::vector<std::string>& axis, EndOfRun end) {
  const RunInfo& info = resume.recorded.run.info;
  const std::filesystem::path folder = resume.recorded.run.folder;
  // Of the results, and no configuration that somebody wrote: what is wrong with the file itself is theirs.
  UserFile(folder / "experiment.json", kResultFile);
  const auto load = [&](const std::vector<std::string>& axes) {
    return load_config(folder / "experiment.json", {.set = {},
                                                    .profile = {},
                                                    .axis = axes,
                                                    .only = info.only,
                                                    .builtin_root = info.builtin_root,
                                                    .is_recorded = true});
  };
  LoadedConfig loaded = load({});
  if (!axis.empty()) loaded = load(grown_axes(loaded, load(axis).config));
  loaded.profile = info.profile;
  return execute_run(command, task, loaded, std::move(resume), end);
}

struct ResumeCommand {
  RunCommand run;
  std::string name = "last";
  std::vector<std::string> axis;
  bool keep_failed = false;
  bool allow_mixed_build = false;
};

/// "tp1_pp1_none_c1 and 11 others have all their repetitions, …": where the run stands, before it goes on.
std::string standing(const RunResult& run) {
  const CellCounts counts = count_cells(run.cells);
  return fmt::format("{} of {} complete, {} begun, {} failed, {} not run", counts.done - counts.partial,
                     counted(counts.planned(), "cell"), counts.partial, counts.failed, counts.not_run);
}

ExitCode resume_command(const ResumeCommand& command) {
  std::error_code ignored;
  if (command.name.ends_with(".json") && std::filesystem::is_regular_file(command.name, ignored))
    fail(ExitCode::usage,
         "resume {}: expected a run, which keeps the settings that it began with; an edited experiment is another run: "
         "runexp run {}",
         command.name, command.name);
  const std::filesystem::path folder = find_run(command.run.results_root, command.name);
  const int failures_accepted = command.keep_failed ? count_cells(read_record(folder).run.cells).failed : 0;
  return in_a_process(
             command.run,
             [&](const SupervisedTask& task) {
               ResumeOptions resume(folder);
               resume.failed = command.keep_failed || task.is_restart ? FailedCells::keep : FailedCells::retry;
               resume.failures_accepted = failures_accepted;
               resume.restart = task.is_restart ? Restart::yes : Restart::no;
               resume.mixed = command.allow_mixed_build ? MixedBuilds::allow : MixedBuilds::refuse;
               if (!task.is_restart) {
                 const RunResult& run = resume.recorded.run;
                 std::fputs(fmt::format("resuming {}: {}\n", run.info.id, standing(run)).c_str(), stderr);
               }
               // The folder holds the grown sweep once a process began it.
               return resume_run(command.run, task, std::move(resume),
                                 task.is_restart ? std::vector<std::string>() : command.axis, EndOfRun::told);
             },
             folder)
      .code;
}

}  // namespace

SupervisedEnd in_a_process(const RunCommand& command, const std::function<ExitCode(const SupervisedTask& task)>& work,
                           std::optional<std::filesystem::path> folder) {
  if (!command.in_process) return run_supervised(work, std::move(folder));
  SupervisedEnd end;
  end.code = work({.resume = std::move(folder),
                   .tell_folder = [&end](const std::filesystem::path& made) { end.folder = made; },
                   .tell_wants_new_process = {}});
  return end;
}

ExitCode run_as_task(const RunCommand& command, const SupervisedTask& task, const LoadedConfig& loaded, EndOfRun end) {
  if (!task.resume) return execute_run(command, task, loaded, {}, end);
  ResumeOptions resume(*task.resume);  // another process of this very command was killed
  resume.restart = Restart::yes;
  resume.failed = FailedCells::keep;
  return resume_run(command, task, std::move(resume), {}, end);
}

const Command& add_run_options(const Command& command, RunCommand& run) {
  run.argv = command.argv();
  return add_results_option(command, run.results_root)
      .option("--ui", &run.progress, "progress",
              {.shown = true, .type = "VIEW", .words = {"auto", "live", "plain", "jsonl", "quiet"}})
      .option("--in-process", &run.in_process, "run in this process, for debuggers");
}

void add_run_commands(const Command& program) {
  const auto run = std::make_shared<RunCommand>();
  const Command run_below = program.below("run", "run an experiment and write results/<time>_<name>_<hash>/");
  add_config_options(run_below, run->config, run->overrides);
  add_run_options(run_below, *run)
      .footer(
          "Examples:\n"
          "  runexp run configs/ngram_tp2.json --profile quick\n"
          "  runexp run configs/ngram_tp2.json --axis k=1..8 --only 'tp==1 && pp==1'\n"
          "  runexp run configs/ngram_tp2.json --set engine.target.path=builtin:draft-600k --set "
          "measure.repetitions=7\n\n"
          "Ctrl-C once ends the run after the repetition under way and writes the report; twice ends it now, a third\n"
          "time even if it hangs. \"runexp resume\" continues.")
      .calls([run] {
        const auto work = [&](const SupervisedTask& task) {
          const LoadedConfig loaded = task.resume ? LoadedConfig() : load_config(run->config, run->overrides);
          return run_as_task(*run, task, loaded, EndOfRun::told);
        };
        return in_a_process(*run, work).code;
      });

  const auto resume = std::make_shared<ResumeCommand>();
  add_run_options(program.below("resume", "continue a run that was interrupted or killed"), resume->run)
      .option("run", &resume->name, kRunHelp, {.shown = true, .type = "RUN"})
      .option("--axis", &resume->axis, "more values of an axis, or a new axis",
              {.repeated = true, .type = "KEY=VALUES"})
      .option("--keep-failed", &resume->keep_failed, "do not try failed cells again")
      .option("--allow-mixed-build", &resume->allow_mixed_build,
              "continue with another build of the program; the report says so")
      .footer(
          "Examples:\n"
          "  runexp resume                          the newest run\n"
          "  runexp resume last~2 --keep-failed     another, without trying its failed cells again\n"
          "  runexp resume last --axis k=7,9        with more cells")
      .calls([resume] { return resume_command(*resume); });
}

}  // namespace paceline
